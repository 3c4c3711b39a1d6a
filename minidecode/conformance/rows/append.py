"""Bias, cut into heads, keys and values into the cache: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ...ops import Heads
from ..sizes import BOUNDARIES, LARGE_HEADS, MANY_ROWS, POSITIONS, ROWS
from .heads import draw_heads, make_distinct_product
from .heads import oracle as heads_oracle


def make_arguments(at: list[int], M: int, heads: Heads, *, bias: bool = True, dtype=np.float32) -> tuple:
    """The op's arguments; the cache holds negative numbers, all different, and the product positive ones."""
    R, G = len(at), heads.G
    cache = [-np.arange(1, 1 + R * G * M * X).reshape(R, G, M, X) for X in (heads.K, heads.U)]
    return *make_distinct_product(R, heads, bias), *(m.astype(dtype) for m in cache), np.array(at, np.int64)


def make_arguments_with_half_cache(at: list[int], M: int, heads: Heads) -> tuple:
    """A cache of half precision, for numbers that it has to round; some are beyond its range, and one is none."""
    rng = np.random.default_rng(0)
    qkv_RX, bias_X, *rest = make_arguments(at, M, heads, dtype=np.float16)
    qkv_RX, bias_X = (3 * rng.standard_normal(a.shape).astype(np.float32) for a in (qkv_RX, bias_X))
    keys_and_values = qkv_RX[:, heads.H * heads.K :]
    keys_and_values[0, :4] = 65503.0, 65519.0, 70000.0, -1e30  # about the largest, and beyond
    keys_and_values[-1, -2:] = -np.inf, np.nan
    return qkv_RX, bias_X, *rest


@st.composite
def draw_inputs(draw):
    """Rows at different positions, the first and the last among them."""
    M = draw(st.integers(1, 5))
    at = draw(st.lists(st.integers(0, M - 1), min_size=1, max_size=4))
    dtype = draw(st.sampled_from([np.float32, np.float16]))
    return make_arguments(at, M, draw(draw_heads()), bias=draw(st.booleans()), dtype=dtype)


def planted_cases() -> list[tuple]:
    return [
        make_arguments([0, 2, 1], 3, Heads(2, 2, 4, 4, 1.0)),
        make_arguments([4, 0], 5, Heads(6, 2, 5, 3, 1.0)),
        make_arguments([1, 1], 2, Heads(4, 1, 3, 7, 1.0), bias=False),
        make_arguments([0], 1, Heads(1, 1, 1, 1, 1.0)),
        make_arguments_with_half_cache([1, 0], 2, Heads(2, 1, 2, 3, 1.0)),
        make_arguments_with_half_cache([1, 0, 1], 2, Heads(4, 2, 8, 6, 1.0)),
        make_arguments_with_half_cache(
            [1, 0, 1, 2, 0], 3, Heads(2, 1, 4, 8, 1.0)
        ),  # whole fours, and more rows than a thread takes
        make_arguments([1, 0, 1, 2, 0], 3, Heads(2, 1, 4, 8, 1.0), bias=False),
        make_arguments([32, 0, 31], 33, Heads(2, 1, 31, 33, 1.0)),
        make_arguments([2] * 2, 3, Heads(12, 12, 64, 64, 1.0)),  # GPT-2's heads, and all rows as long, as in a step
    ]


def large_cases() -> list[tuple]:
    """Many rows, a late position, many heads, wide ones, and positions at the edges of blocks."""
    one = Heads(1, 1, 1, 1, 1.0)
    return [
        make_arguments(list(BOUNDARIES), BOUNDARIES[-1] + 1, one),
        make_arguments([1] * ROWS, 2, one),
        make_arguments([POSITIONS - 1], POSITIONS, one),
        *(make_arguments([1, 0], 2, Heads(G, G, K, K, 1.0)) for G, K in LARGE_HEADS),
        make_arguments([0] * MANY_ROWS, 1, one),
    ]


def oracle(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R):
    """The queries, and the caches with each row's keys and values at its position, rounded to what the cache stores."""
    q_RHK, *new = heads_oracle(qkv_RX, bias_X, heads)
    after = [k_RGMK.copy(), v_RGMU.copy()]
    for cache_RGMX, new_RGX in zip(after, new, strict=True):
        for r, g, x in np.ndindex(new_RGX.shape):
            cache_RGMX[r, g, at_R[r], x] = clamp_to_range(new_RGX[r, g, x], cache_RGMX.dtype)
    return q_RHK, *after


def clamp_to_range(number, dtype):
    """Beyond the range that is the largest number, with its sign."""
    if dtype != np.float16 or np.isnan(number):
        return number
    return max(min(float(number), 65504.0), -65504.0)


WHEN_REPEATED = {"room": 2}  # caches of a gigabyte, of which one position is written


def make_paper_inputs(*, seed: int = 0, room: int = 128) -> tuple[tuple, str]:
    """A decode step of GPT-2: 32 sentences of 4 beams, with room for 128 positions."""
    rng = np.random.default_rng(seed)
    R, heads = 128, Heads(12, 12, 64, 64, 0.125)
    qkv_RX, bias_X = (rng.standard_normal(shape).astype(np.float32) for shape in ((R, 3 * 768), 3 * 768))
    cache = (np.zeros((R, 12, room, 64), np.float32) for _ in range(2))
    arguments = qkv_RX, bias_X, heads, *cache, np.full(R, room // 2)
    return arguments, f"{R} rows, 12 heads of 64 numbers, room for {room} positions"
