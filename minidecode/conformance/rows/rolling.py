"""Local attention over slots: inputs that find mistakes, what is right, and how near an answer must be."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..attention import STORED as STORED
from ..attention import (
    cast_caches_of_paper_inputs,
    cast_caches_to_float16,
    draw_caches_in_float16_or_32,
    draw_position_bias,
    look_up_bias_of_row,
    make_oracle_and_error_bound,
    make_random_position_bias,
)
from ..sizes import BOUNDARIES, LARGE_HEADS, MANY_ROWS, POISON, POSITIONS, ROWS, WIDTH


def make_arguments(
    begins: list[int], ends: list[int], M: int, *, G: int = 1, per_group: int = 1, K: int = 2, U: int = 2,
    seed: int = 0, **of_bias: Any,
) -> tuple:  # fmt: skip
    """The op's arguments; slots whose position is not seen, or not written yet, hold poison."""
    rng = np.random.default_rng(seed)
    R = len(begins)
    q_RHK, k_RGMK, v_RGMU = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((R, G * per_group, K), (R, G, M, K), (R, G, M, U))
    )
    for r, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        is_unseen_M = np.ones(M, bool)
        is_unseen_M[np.arange(max(begin, end - M), end) % M] = False
        k_RGMK[r][:, is_unseen_M], v_RGMU[r][:, is_unseen_M] = POISON, POISON
    bias = [make_random_position_bias(rng, G * per_group, **of_bias)] if of_bias else []
    return q_RHK, k_RGMK, v_RGMU, np.array(begins), np.array(ends), 0.7, *bias


@st.composite
def draw_inputs(draw):
    """Slots that are filled once, several times or not yet; padding that is still seen or has left the window."""
    R, M, size = draw(st.integers(1, 3)), draw(st.integers(1, 6)), st.integers(1, 3)
    ends = draw(st.lists(st.integers(1, 3 * M + 1), min_size=R, max_size=R))
    begins = [draw(st.integers(0, end - 1)) for end in ends]
    G, per_group = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    arguments = make_arguments(
        begins, ends, M, G=G, per_group=per_group, K=draw(size), U=draw(size),
        seed=draw(st.integers(0, 5)),
    )  # fmt: skip
    return draw_position_bias(draw, draw_caches_in_float16_or_32(draw, arguments), G * per_group, R)


def planted_cases() -> list[tuple]:
    cases = [
        make_arguments([0, 0], [3, 3], 4),  # not full yet
        make_arguments([0, 0], [4, 4], 4),  # just full
        make_arguments([0, 0], [5, 5], 4, K=3),  # the oldest has just been overwritten
        make_arguments([2, 5], [7, 7], 4),  # padding that has left the window, and padding in it
        make_arguments([0, 1, 2], [11, 12, 13], 5, G=2, per_group=3, K=5, U=3),  # rows of different lengths
        cast_caches_to_float16(make_arguments([0, 1], [90, 37], 40, G=2, per_group=2, K=16, U=8)),  # of half precision
        make_arguments([0, 6], [7, 7], 1),  # one slot
        make_arguments([6, 3], [7, 4], 3),  # one position is seen
        make_arguments([0] * 4, [100] * 4, 32, G=1, per_group=8, K=128, U=128),  # the paper's window, and its heads
        make_arguments([0, 40], [200, 150], 130, K=33, U=65, per_group=2),
        make_arguments([1, 0], [9, 3], 4, K=300, U=290),  # past the rooms of kernels
    ]
    peak = make_arguments([0, 0], [50, 61], 40, K=8, U=8)
    peak[1][:, :, 17] *= 30  # a score far above the others
    biased = [
        make_arguments([0, 5], [150, 200], 140, G=2, per_group=2, buckets=32),  # a position bias, to its last bucket
        make_arguments([0, 1, 2], [11, 12, 3], 5, per_group=2, buckets=8, farthest=12, rows=3),  # one for each row
        cast_caches_to_float16(make_arguments([0], [30], 20, K=16, U=8, buckets=8, farthest=12)),
        make_arguments([1, 0], [9, 3], 4, K=300, U=290, buckets=8, farthest=12),
    ]
    return [*cases, peak, *biased]


def large_cases() -> list[tuple]:
    """Many rows, many slots, many heads, wide ones, and counts of slots at the edges of blocks."""
    edges, room = len(BOUNDARIES), BOUNDARIES[-1]
    return [
        *(make_arguments([0, 0], [n, n + 1], n) for n in (*BOUNDARIES, POSITIONS)),
        make_arguments([0] * edges, list(BOUNDARIES), room),
        *(make_arguments([0] * R, [2] * R, 1, K=WIDTH, U=WIDTH) for R in (ROWS, MANY_ROWS)),
        *(make_arguments([0], [3], 2, G=G, K=K, U=K) for G, K in LARGE_HEADS),
    ]


def attend_row_arguments(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias=None):
    """For each row its query and the keys and values that it sees, by the positions in order."""
    M = k_RGMK.shape[2]
    for r in range(len(q_RHK)):
        position_M = range(max(begin_R[r], end_R[r] - M), end_R[r])
        slots, bias_HM = [p % M for p in position_M], look_up_bias_of_row(bias, r, end_R[r] - 1 - np.array(position_M))
        yield q_RHK[r], k_RGMK[r][:, slots], v_RGMU[r][:, slots], scale, bias_HM


oracle, error_bound = make_oracle_and_error_bound(attend_row_arguments)


def make_paper_inputs(stored: str = "float32", *, seed: int = 0) -> tuple[tuple, str]:
    """The paper's local multi-query model, a core's share: 128 rows, a window of 32, 8 query heads over one of 128."""
    arguments = make_arguments([0] * 128, [128] * 128, 32, per_group=8, K=128, U=128, seed=seed)
    return cast_caches_of_paper_inputs(
        stored, arguments, "128 rows, 32 slots, 8 query heads over one key/value head of 128 numbers"
    )
