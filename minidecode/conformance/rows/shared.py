"""Attention of the beams of a sentence to one cache: inputs that find mistakes, and what is right."""

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
    make_oracle_and_error_bound,
    poison_unseen_positions,
)
from ..sizes import BOUNDARIES, LARGE_HEADS, MANY_ROWS, POSITIONS, ROWS, WIDTH


def make_arguments(q_RHK, k_BGNK, v_BGNU, begin_B, scale: float) -> tuple:
    """The positional arguments, with poison in the padding."""
    begin_B, end_B = np.array(begin_B), np.full(len(k_BGNK), k_BGNK.shape[2])
    return q_RHK, *poison_unseen_positions(k_BGNK, v_BGNU, begin_B, end_B), begin_B, scale


@st.composite
def draw_inputs(draw):
    """A few sentences of different lengths, and beams, of narrow heads."""
    B, W, N = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 6))
    G, per_group = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    K, U = draw_key_and_value_widths(draw)
    begin_B = [draw(st.integers(0, N - 1)) for _ in range(B)]
    q_RHK, k_BGNK, v_BGNU = (
        draw_array(draw, B * W, G * per_group, K),
        draw_array(draw, B, G, N, K),
        draw_array(draw, B, G, N, U),
    )
    scale = draw(st.sampled_from([1.0, 0.5, 0.125]))
    return draw_caches_in_float16_or_32(draw, make_arguments(q_RHK, k_BGNK, v_BGNU, begin_B, scale))


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)

    def make_case(begin_B, W, G, H, N, K, U, scale=0.7):
        B = len(begin_B)
        cache = draw_normal_array(rng, B, G, N, K), draw_normal_array(rng, B, G, N, U)
        return make_arguments(draw_normal_array(rng, B * W, H, K), *cache, begin_B, scale)

    rising = make_case([0, 3], 2, 1, 1, 70, 4, 3)
    rising[0][:], rising[1][:] = 1.0, np.linspace(0, 25, 70, dtype=np.float32)[:, None]  # a new maximum at every step
    equal = make_case([0, 7], 2, 1, 1, 40, 3, 2)
    equal[1][:], equal[2][0] = 1.0, 0.1  # all scores of a row are equal, and in one sentence the values too
    steep = make_case([0, 5], 1, 1, 3, 33, 5, 4, scale=40.0)  # exponentials overflow if nothing is taken off
    return [
        make_case([0, 3, 4], 2, 2, 4, 5, 3, 2),  # sentences of different lengths, one of a single position
        make_case([0, 1], 3, 1, 4, 7, 4, 4),  # one key/value head for all query heads
        make_case([2, 0], 2, 3, 3, 7, 2, 3),  # one each
        rising,
        equal,
        steep,
        make_case([0, 31], 3, 2, 4, 33, 5, 3),
        cast_caches_to_float16(make_case([0, 3], 2, 2, 4, 40, 16, 8)),  # a cache of half precision
        make_case([0], 5, 1, 2, 6, 3, 5),
        make_case([0], 1, 1, 1, 1, 1, 1),
        make_case([0, 1], 2, 1, 1, 32, 1, 33),
        make_case([5, 70], 2, 1, 2, 192, 4, 6),  # long enough to be cut in ranges, of which a row does not see all
        make_case([0], 4, 1, 1, 33, 64, 64),  # the width of BART's heads
        make_case([3], 2, 1, 1, 35, 130, 66),  # wider than there is room for
        make_case([2], 5, 1, 4, 9, 3, 2),  # more queries than a block takes
        make_case([0, 3], 3, 1, 1, 9, 16, 16),  # heads of whole 128-bit loads
        cast_caches_to_float16(make_case([5], 2, 1, 1, 70, 32, 32)),
        make_case([40], 3, 1, 1, 550, 16, 16),
    ]


def large_cases() -> list[tuple]:
    """Many sentences, many positions, many heads, wide ones, and counts of positions at the edges of blocks."""
    rng, cases, N = np.random.default_rng(1), [], BOUNDARIES[-1]
    for begins, length in [([N - n for n in BOUNDARIES], N), ([0] * ROWS, 1), ([0], POSITIONS), ([0] * MANY_ROWS, 2)]:
        B = len(begins)
        arrays = (
            draw_normal_array(rng, B, 1, WIDTH),
            draw_normal_array(rng, B, 1, length, WIDTH),
            draw_normal_array(rng, B, 1, length, WIDTH),
        )
        cases.append(make_arguments(*arrays, begins, 0.7))
    for G, K in LARGE_HEADS:
        cache = (draw_normal_array(rng, 1, G, 2, K) for _ in range(2))
        cases.append(make_arguments(draw_normal_array(rng, 1, G, K), *cache, [0], 0.1))
    return cases


def attend_row_arguments(q_RHK, k_BGNK, v_BGNU, begin_B, scale):
    """Row by row: its queries, and the keys and values of the positions of its sentence."""
    W = len(q_RHK) // len(k_BGNK)
    for r, q_HK in enumerate(q_RHK):
        yield q_HK, k_BGNK[r // W, :, begin_B[r // W] :], v_BGNU[r // W, :, begin_B[r // W] :], scale


oracle, error_bound = make_oracle_and_error_bound(attend_row_arguments)


def make_paper_inputs(stored: str = "float32", *, seed: int = 0) -> tuple[tuple, str]:
    """A decode step of BART-large on CNN/DailyMail (FastSeq, Table 2), of 4 sentences: sources of 1024 tokens."""
    rng = np.random.default_rng(seed)
    B, W, H, N, width = 4, 4, 16, 1024, 64
    cache = draw_normal_array(rng, B, H, N, width), draw_normal_array(rng, B, H, N, width)
    shape = f"{B} sentences of {W} beams, {H} heads of {width}, {N} positions"
    return cast_caches_of_paper_inputs(
        stored, (draw_normal_array(rng, B * W, H, width), *cache, np.zeros(B, np.int64), width**-0.5), shape
    )
