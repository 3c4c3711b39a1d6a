"""Attention over a cache of its own for each row: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..attention import STORED as STORED
from ..attention import (
    cast_caches_of_paper_inputs,
    cast_caches_to_float16,
    draw_array,
    draw_caches_in_float16_or_32,
    draw_key_and_value_widths,
    draw_normal_array,
    draw_position_bias,
    look_up_bias_of_row,
    make_oracle_and_error_bound,
    make_random_position_bias,
    poison_unseen_positions,
)
from ..sizes import BOUNDARIES, LARGE_HEADS, MANY_ROWS, POSITIONS, ROWS, WIDTH


def make_arguments(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale: float, *bias) -> tuple:
    """The positional arguments, with poison in the positions that a row does not see."""
    begin_R, end_R = np.array(begin_R), np.array(end_R)
    return q_RHK, *poison_unseen_positions(k_RGMK, v_RGMU, begin_R, end_R), begin_R, end_R, scale, *bias


@st.composite
def draw_inputs(draw):
    """Few positions of narrow heads; groups of one query head and of several; keys and values of different widths."""
    R, M = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    G, per_group = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    K, U = draw_key_and_value_widths(draw)
    begin_R = [draw(st.integers(0, M - 1)) for _ in range(R)]
    end_R = [draw(st.integers(begin + 1, M)) for begin in begin_R]
    q_RHK, k_RGMK, v_RGMU = (
        draw_array(draw, R, G * per_group, K),
        draw_array(draw, R, G, M, K),
        draw_array(draw, R, G, M, U),
    )
    scale = draw(st.sampled_from([1.0, 0.5, 0.125]))
    arguments = draw_caches_in_float16_or_32(draw, make_arguments(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale))
    return draw_position_bias(draw, arguments, G * per_group, R)


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)

    def make_case(begin_R, end_R, G, H, M, K, U, scale=0.7, **of_bias):
        R = len(begin_R)
        cache = draw_normal_array(rng, R, G, M, K), draw_normal_array(rng, R, G, M, U)
        bias = [make_random_position_bias(rng, H, **of_bias)] if of_bias else []
        return make_arguments(draw_normal_array(rng, R, H, K), *cache, begin_R, end_R, scale, *bias)

    rising = make_case([0, 3], [70, 66], 1, 2, 70, 4, 3)
    rising[0][:], rising[1][:] = 1.0, np.linspace(0, 25, 70, dtype=np.float32)[:, None]  # a new maximum at every step
    equal = make_case([0, 1], [40, 33], 1, 1, 40, 3, 2)
    equal[1][:], equal[2][0] = 1.0, 0.1  # all scores of a row are equal, and of one the values too
    steep = make_case([0, 5], [31, 33], 1, 3, 33, 5, 4, scale=40.0)  # exponentials overflow if nothing is taken off
    return [
        make_case([0, 1, 3], [5, 4, 4], 2, 4, 5, 3, 2),  # windows of every length down to one position
        make_case([0, 0], [7, 6], 1, 4, 7, 4, 4),  # one key/value head for all query heads
        make_case([2, 0], [7, 7], 3, 3, 7, 2, 3),  # one each
        rising,
        equal,
        steep,
        make_case([0, 32], [33, 33], 2, 6, 33, 5, 3),
        cast_caches_to_float16(make_case([0, 3], [40, 37], 2, 4, 40, 16, 8)),  # a cache of half precision
        make_case([1], [64], 1, 2, 64, 3, 5),
        make_case([0], [1], 1, 1, 1, 1, 1),
        make_case([0, 1], [31, 32], 1, 2, 32, 1, 33),
        make_case([5, 70], [140, 192], 1, 3, 192, 4, 6),  # cut in ranges, of which a row does not see all
        make_case([0], [33], 1, 2, 33, 64, 64),  # the width of GPT-2's heads
        make_case([3], [35], 1, 2, 35, 130, 66),  # wider than there is room for
        make_case([0], [35], 1, 2, 35, 5, 130),
        make_case([2], [9], 1, 19, 9, 3, 2),  # more query heads than a block takes
        make_case([0, 4], [140, 133], 2, 4, 140, 4, 3, buckets=32),  # a position bias, to its last bucket
        make_case([0, 3, 1], [20, 19, 2], 1, 2, 20, 3, 2, buckets=8, farthest=12, rows=3),  # one for each row
        cast_caches_to_float16(make_case([2], [40], 1, 2, 40, 16, 8, buckets=8, farthest=12)),
        make_case([1], [20], 1, 2, 20, 300, 290, buckets=8, farthest=12),  # wider than there is room for
        make_case([0, 3], [9, 6], 1, 3, 9, 16, 16),  # heads of whole 128-bit loads
        cast_caches_to_float16(make_case([5], [70], 1, 2, 70, 32, 32)),
        make_case([3], [530], 1, 2, 530, 16, 16),
    ]


def large_cases() -> list[tuple]:
    """Many rows, many positions, many heads, wide ones, and counts of positions at the edges of blocks."""
    rng, cases = np.random.default_rng(1), []
    for ends, M in [(BOUNDARIES, BOUNDARIES[-1]), ([1] * ROWS, 1), ([POSITIONS], POSITIONS), ([2] * MANY_ROWS, 2)]:
        R = len(ends)
        arrays = (
            draw_normal_array(rng, R, 1, WIDTH),
            draw_normal_array(rng, R, 1, M, WIDTH),
            draw_normal_array(rng, R, 1, M, WIDTH),
        )
        cases.append(make_arguments(*arrays, [0] * R, ends, 0.7))
    for G, K in LARGE_HEADS:
        cache = (draw_normal_array(rng, 1, G, 2, K) for _ in range(2))
        cases.append(make_arguments(draw_normal_array(rng, 1, G, K), *cache, [0], [2], 0.1))
    return cases


def attend_row_arguments(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias=None):
    """Row by row: its queries, and the keys and values of the positions that it sees."""
    for r, (begin, end) in enumerate(zip(begin_R, end_R, strict=True)):
        bias_HM = look_up_bias_of_row(bias, r, end - 1 - np.arange(begin, end))
        yield q_RHK[r], k_RGMK[r, :, begin:end], v_RGMU[r, :, begin:end], scale, bias_HM


oracle, error_bound = make_oracle_and_error_bound(attend_row_arguments)


def make_paper_inputs(stored: str = "float32", *, seed: int = 0) -> tuple[tuple, str]:
    """The last decode step of what one core of the multi-query paper's batch holds (MQA, section 4.3)."""
    rng = np.random.default_rng(seed)
    R, H, G, M, width = 128, 8, 1, 128, 128
    cache = draw_normal_array(rng, R, G, M, width), draw_normal_array(rng, R, G, M, width)
    shape = f"{R} rows, {H} query heads of {width} over {G} key/value head, {M} positions"
    return cast_caches_of_paper_inputs(
        stored, (draw_normal_array(rng, R, H, width), *cache, np.zeros(R, np.int64), np.full(R, M), width**-0.5), shape
    )
