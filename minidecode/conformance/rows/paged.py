"""Attention over pages: inputs that find mistakes, what is right, and how near an answer must be."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..attention import STORED as STORED
from ..attention import (
    cast_caches_of_paper_inputs,
    cast_caches_to_float16,
    draw_caches_in_float16_or_32,
    draw_key_and_value_widths,
    draw_position_bias,
    look_up_bias_of_row,
    make_oracle_and_error_bound,
    make_random_position_bias,
)
from ..sizes import BOUNDARIES, LARGE_HEADS, MANY_ROWS, POISON, POSITIONS, ROWS, WIDTH


def make_arguments(
    ends: list[int], M: int = 4, *, shared: int = 0, begins: list[int] | None = None, spare: int = 1, G: int = 1,
    per_group: int = 1, K: int = 2, U: int = 2, seed: int = 0, **of_bias: Any,
) -> tuple:  # fmt: skip
    """The op's arguments for rows that see positions up to these ends, in pages of M that lie in a random order.

    All rows hold the same first `shared` pages, if they are as long. Slots that no row sees hold poison, and so do
    `spare` pages that no row has; tables name one of them where a row has no page.
    """
    rng = np.random.default_rng(seed)
    R, begins = len(ends), [0] * len(ends) if begins is None else begins
    counts = [-(-end // M) for end in ends]
    unshared = sum(max(count - shared, 0) for count in counts)
    numbers = rng.permutation(shared + unshared + spare)
    table_RX = np.full((R, max(counts) + 1), numbers[-1])
    used = shared
    for r, count in enumerate(counts):
        both = min(count, shared)
        table_RX[r, :both] = numbers[:both]
        table_RX[r, both:count] = numbers[used : used + count - both]
        used += count - both
    q_RHK, k_XGMK, v_XGMU = (
        rng.standard_normal(shape).astype(np.float32)
        for shape in ((R, G * per_group, K), (len(numbers), G, M, K), (len(numbers), G, M, U))
    )
    is_seen_XM = np.zeros((len(numbers), M), bool)
    for r, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        m = np.arange(begin, end)
        is_seen_XM[table_RX[r, m // M], m % M] = True
    for pages_XGMX in (k_XGMK, v_XGMU):
        pages_XGMX.swapaxes(1, 2)[~is_seen_XM] = POISON
    bias = [make_random_position_bias(rng, G * per_group, **of_bias)] if of_bias else []
    return q_RHK, k_XGMK, v_XGMU, table_RX, np.array(begins), np.array(ends), 0.7, *bias


@st.composite
def draw_inputs(draw):
    """Rows of different lengths, whose last pages are full or not; some share pages, some see a window alone."""
    R, M = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    ends = draw(st.lists(st.integers(1, 3 * M + 1), min_size=R, max_size=R))
    begins = [draw(st.integers(0, end - 1)) for end in ends]
    G, per_group = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    K, U = draw_key_and_value_widths(draw)
    arguments = make_arguments(
        ends, M, shared=draw(st.integers(0, 2)), begins=begins, G=G, per_group=per_group, K=K, U=U,
        seed=draw(st.integers(0, 5)),
    )  # fmt: skip
    return draw_position_bias(draw, draw_caches_in_float16_or_32(draw, arguments), G * per_group, R)


def planted_cases() -> list[tuple]:
    """The edges of pages, shared pages, windows; shapes past warps and rooms; a score far above the others."""
    cases = [
        make_arguments([15, 16, 17, 33], 16, spare=3),  # a page that is nearly full, full, and just begun
        make_arguments([20, 21, 18, 20], 4, shared=4, G=2, per_group=3, K=5, U=3),  # beams of one prompt
        make_arguments([9, 12], 4, begins=[5, 8]),  # windows that begin within a page, and at its edge
        make_arguments([1], 16),
        make_arguments([3, 2, 1], 1, K=3),  # pages of one position
        cast_caches_to_float16(
            make_arguments([40, 57], 16, shared=2, G=2, per_group=2, K=16, U=8)
        ),  # of half precision
        make_arguments([70, 35], 16, begins=[3, 0], K=64, U=64, per_group=2),
        make_arguments([33], 16, K=33, U=100, per_group=2),
        make_arguments([5, 3], 4, K=300, U=290),  # past the rooms of kernels
    ]
    peak = make_arguments([50, 61], 16, K=8, U=8)
    peak[1][peak[3][:, 1], :, 1] *= 30  # a score far above the others, at position 17
    biased = [
        make_arguments([150, 140], 16, G=2, per_group=2, buckets=32),  # a position bias, to its last bucket
        make_arguments(
            [11, 12, 3], 4, begins=[2, 5, 0], per_group=2, buckets=8, farthest=12, rows=3
        ),  # one for each row
        cast_caches_to_float16(make_arguments([30], 16, K=16, U=8, buckets=8, farthest=12)),
        make_arguments([9, 3], 4, K=300, U=290, buckets=8, farthest=12),
    ]
    return [*cases, peak, *biased]


def large_cases() -> list[tuple]:
    """Many rows, many pages, many heads, wide ones, and counts of positions at the edges of blocks."""
    return [
        *(make_arguments([n, n - 1], 16, shared=1) for n in (*BOUNDARIES, POSITIONS)),
        *(make_arguments([2] * R, 2, K=WIDTH, U=WIDTH) for R in (ROWS, MANY_ROWS)),
        make_arguments([70], 48),  # pages of more than 16 positions
        *(make_arguments([3], 2, G=G, K=K, U=K) for G, K in LARGE_HEADS),
    ]


def attend_row_arguments(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias=None):
    """For each row its query and the keys and values that it sees, looked up one by one."""
    M = k_XGMK.shape[2]
    for r in range(len(q_RHK)):
        seen = [(table_RX[r, m // M], m % M) for m in range(begin_R[r], end_R[r])]
        k_GMK = np.stack([k_XGMK[page, :, slot] for page, slot in seen], axis=1)
        v_GMU = np.stack([v_XGMU[page, :, slot] for page, slot in seen], axis=1)
        bias_HM = look_up_bias_of_row(bias, r, [end_R[r] - 1 - m for m in range(begin_R[r], end_R[r])])
        yield q_RHK[r], k_GMK, v_GMU, scale, bias_HM


oracle, error_bound = make_oracle_and_error_bound(attend_row_arguments)


def make_paper_inputs(stored: str = "float32", *, seed: int = 0) -> tuple[tuple, str]:
    """GPT-2: 8 sentences of 4 beams, prompts of 256 tokens in shared pages, and 64 generated positions."""
    parts = [make_arguments([320] * 4, 16, shared=16, spare=0, G=12, K=64, U=64, seed=seed + b) for b in range(8)]
    q_RHK, k_XGMK, v_XGMU = (np.concatenate([part[i] for part in parts]) for i in range(3))
    table_RX = np.concatenate([part[3] + sum(len(p[1]) for p in parts[:b]) for b, part in enumerate(parts)])
    arguments = q_RHK, k_XGMK, v_XGMU, table_RX, np.zeros(32, np.int64), np.full(32, 320), 0.125
    return cast_caches_of_paper_inputs(
        stored, arguments, "8 sentences of 4 beams, 256 + 64 positions of 12 heads of 64 numbers, in pages"
    )
