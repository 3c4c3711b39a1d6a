"""Bias, cut into heads, keys and values into pages: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ...ops import Heads
from ..sizes import BOUNDARIES, LARGE_HEADS, MANY_ROWS, POSITIONS, ROWS
from .append import clamp_to_range
from .append import make_arguments_with_half_cache as halves_of_rows
from .heads import draw_heads, make_distinct_product
from .heads import oracle as heads_oracle


def make_arguments(at: list[int], M: int, heads: Heads, *, bias: bool = True, dtype=np.float32, seed: int = 0) -> tuple:
    """The op's arguments; pages hold negative numbers, all different, and the product positive ones.

    Each row has pages of its own, in a random order. Entries behind its newest page name a page of another row.
    """
    R, G, counts = len(at), heads.G, [position // M + 1 for position in at]
    numbers = np.random.default_rng(seed).permutation(sum(counts))
    table_RX = np.full((R, max(counts)), numbers[0])
    first = 0
    for r, count in enumerate(counts):
        table_RX[r, :count] = numbers[first : first + count]
        first += count
    pages = [-np.arange(1, 1 + sum(counts) * G * M * X).reshape(-1, G, M, X) for X in (heads.K, heads.U)]
    return *make_distinct_product(R, heads, bias), *(m.astype(dtype) for m in pages), table_RX, np.array(at, np.int64)


def make_arguments_with_half_pages(at: list[int], M: int, heads: Heads) -> tuple:
    """Pages of half precision, for numbers that they have to round; some are beyond its range, and one is none."""
    _, _, _, *pages = make_arguments(at, M, heads, dtype=np.float16)
    return *halves_of_rows(at, max(at) + 1, heads)[:3], *pages


@st.composite
def draw_inputs(draw):
    """Rows at different positions, the first and the last of a page among them."""
    M = draw(st.integers(1, 4))
    at = draw(st.lists(st.integers(0, 3 * M), min_size=1, max_size=4))
    how = {"bias": draw(st.booleans()), "dtype": draw(st.sampled_from([np.float32, np.float16]))}
    return make_arguments(at, M, draw(draw_heads()), **how, seed=draw(st.integers(0, 5)))


def planted_cases() -> list[tuple]:
    return [
        make_arguments(
            [15, 16, 17, 31, 32], 16, Heads(2, 2, 4, 4, 1.0)
        ),  # a page's last slot, and the next one's first
        make_arguments([4, 0], 3, Heads(6, 2, 5, 3, 1.0)),
        make_arguments([1, 5], 2, Heads(4, 1, 3, 7, 1.0), bias=False),
        make_arguments([0], 1, Heads(1, 1, 1, 1, 1.0)),
        make_arguments_with_half_pages([1, 0], 2, Heads(2, 1, 2, 3, 1.0)),
        make_arguments_with_half_pages([5, 0, 3], 2, Heads(4, 2, 8, 6, 1.0)),
        make_arguments([32, 0, 31], 16, Heads(2, 1, 31, 33, 1.0)),
        make_arguments([18, 18], 16, Heads(12, 12, 64, 64, 1.0)),  # GPT-2's heads, and all rows as long, as in a step
    ]


def large_cases() -> list[tuple]:
    """Many rows, a late position, many heads, wide ones, and positions at the edges of blocks."""
    one = Heads(1, 1, 1, 1, 1.0)
    return [
        make_arguments(list(BOUNDARIES), 16, one),
        make_arguments([1] * ROWS, 2, one),
        make_arguments([POSITIONS - 1], 16, one),
        *(make_arguments([1, 2], 2, Heads(G, G, K, K, 1.0)) for G, K in LARGE_HEADS),
        make_arguments([0] * MANY_ROWS, 1, one),
        make_arguments([40], 48, one),  # pages of more than 16 positions
    ]


def oracle(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R):
    """The queries, and the pages with each row's keys and values in its slot, rounded to what the cache stores."""
    q_RHK, *new = heads_oracle(qkv_RX, bias_X, heads)
    after = [k_XGMK.copy(), v_XGMU.copy()]
    for pages_XGMX, new_RGX in zip(after, new, strict=True):
        M = pages_XGMX.shape[2]
        for r, g, x in np.ndindex(new_RGX.shape):
            page = table_RX[r, at_R[r] // M]
            pages_XGMX[page, g, at_R[r] % M, x] = clamp_to_range(new_RGX[r, g, x], pages_XGMX.dtype)
    return q_RHK, *after


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A decode step of GPT-2: 32 sentences of 4 beams at position 64, with 5 pages each."""
    rng = np.random.default_rng(seed)
    R, heads = 128, Heads(12, 12, 64, 64, 0.125)
    qkv_RX, bias_X = (rng.standard_normal(shape).astype(np.float32) for shape in ((R, 3 * 768), 3 * 768))
    pages = (np.zeros((5 * R, 12, 16, 64), np.float32) for _ in range(2))
    arguments = qkv_RX, bias_X, heads, *pages, rng.permutation(5 * R).reshape(R, 5), np.full(R, 64)
    return arguments, f"{R} rows, 12 heads of 64 numbers, 5 pages of 16 positions a row"
