"""Attention of the beams of a sentence to one cache: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..attention import STORED as STORED
from ..attention import (
    caches_in_float16,
    draw_array,
    draw_cache_type,
    draw_widths,
    normal_numbers,
    oracle_and_bound,
    poison_unseen_positions,
    store_timed_caches,
)
from ..sizes import BOUNDARIES, LARGE_HEADS, MANY_ROWS, POSITIONS, ROWS, WIDTH


def arguments_of(q_RHK, k_BGNK, v_BGNU, begin_B, scale: float) -> tuple:
    """The positional arguments, with poison in the padding."""
    begin_B, end_B = np.array(begin_B), np.full(len(k_BGNK), k_BGNK.shape[2])
    return q_RHK, *poison_unseen_positions(k_BGNK, v_BGNU, begin_B, end_B), begin_B, scale


@st.composite
def inputs(draw):
    """A few sentences of different lengths, and beams, of narrow heads."""
    B, W, N = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 6))
    G, per_group = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    K, U = draw_widths(draw)
    begin_B = [draw(st.integers(0, N - 1)) for _ in range(B)]
    q_RHK, k_BGNK, v_BGNU = (
        draw_array(draw, B * W, G * per_group, K),
        draw_array(draw, B, G, N, K),
        draw_array(draw, B, G, N, U),
    )
    scale = draw(st.sampled_from([1.0, 0.5, 0.125]))
    return draw_cache_type(draw, arguments_of(q_RHK, k_BGNK, v_BGNU, begin_B, scale))


def planted() -> list[tuple]:
    rng = np.random.default_rng(0)

    def case(begin_B, W, G, H, N, K, U, scale=0.7):
        B = len(begin_B)
        cache = normal_numbers(rng, B, G, N, K), normal_numbers(rng, B, G, N, U)
        return arguments_of(normal_numbers(rng, B * W, H, K), *cache, begin_B, scale)

    rising = case([0, 3], 2, 1, 1, 70, 4, 3)
    rising[0][:], rising[1][:] = 1.0, np.linspace(0, 25, 70, dtype=np.float32)[:, None]  # a new maximum at every step
    equal = case([0, 7], 2, 1, 1, 40, 3, 2)
    equal[1][:], equal[2][0] = 1.0, 0.1  # all scores of a row are equal, and in one sentence the values too
    steep = case([0, 5], 1, 1, 3, 33, 5, 4, scale=40.0)  # exponentials overflow if nothing is taken off
    return [
        case([0, 3, 4], 2, 2, 4, 5, 3, 2),  # sentences of different lengths, one of a single position
        case([0, 1], 3, 1, 4, 7, 4, 4),  # one key/value head for all query heads
        case([2, 0], 2, 3, 3, 7, 2, 3),  # one each
        rising,
        equal,
        steep,
        case([0, 31], 3, 2, 4, 33, 5, 3),
        caches_in_float16(case([0, 3], 2, 2, 4, 40, 16, 8)),  # a cache of half precision
        case([0], 5, 1, 2, 6, 3, 5),
        case([0], 1, 1, 1, 1, 1, 1),
        case([0, 1], 2, 1, 1, 32, 1, 33),
        case([5, 70], 2, 1, 2, 192, 4, 6),  # long enough to be cut in ranges, of which a row does not see all
        case([0], 4, 1, 1, 33, 64, 64),  # the width of BART's heads
        case([3], 2, 1, 1, 35, 130, 66),  # wider than there is room for
        case([2], 5, 1, 4, 9, 3, 2),  # more queries than a block takes
        case([0, 3], 3, 1, 1, 9, 16, 16),  # heads of whole 128-bit loads
        caches_in_float16(case([5], 2, 1, 1, 70, 32, 32)),
        case([40], 3, 1, 1, 550, 16, 16),
    ]


def large() -> list[tuple]:
    """Many sentences, many positions, many heads, wide ones, and counts of positions at the edges of blocks."""
    rng, cases, N = np.random.default_rng(1), [], BOUNDARIES[-1]
    for begins, length in [([N - n for n in BOUNDARIES], N), ([0] * ROWS, 1), ([0], POSITIONS), ([0] * MANY_ROWS, 2)]:
        B = len(begins)
        arrays = (
            normal_numbers(rng, B, 1, WIDTH),
            normal_numbers(rng, B, 1, length, WIDTH),
            normal_numbers(rng, B, 1, length, WIDTH),
        )
        cases.append(arguments_of(*arrays, begins, 0.7))
    for G, K in LARGE_HEADS:
        cache = (normal_numbers(rng, 1, G, 2, K) for _ in range(2))
        cases.append(arguments_of(normal_numbers(rng, 1, G, K), *cache, [0], 0.1))
    return cases


def seen(q_RHK, k_BGNK, v_BGNU, begin_B, scale):
    """Row by row: its queries, and the keys and values of the positions of its sentence."""
    W = len(q_RHK) // len(k_BGNK)
    for r, q_HK in enumerate(q_RHK):
        yield q_HK, k_BGNK[r // W, :, begin_B[r // W] :], v_BGNU[r // W, :, begin_B[r // W] :], scale


oracle, bound = oracle_and_bound(seen)


def paper_inputs(stored: str = "float32", *, seed: int = 0) -> tuple[tuple, str]:
    """A decode step of BART-large on CNN/DailyMail (FastSeq, Table 2), of 4 sentences: sources of 1024 tokens."""
    rng = np.random.default_rng(seed)
    B, W, H, N, width = 4, 4, 16, 1024, 64
    cache = normal_numbers(rng, B, H, N, width), normal_numbers(rng, B, H, N, width)
    shape = f"{B} sentences of {W} beams, {H} heads of {width}, {N} positions"
    return store_timed_caches(
        stored, (normal_numbers(rng, B * W, H, width), *cache, np.zeros(B, np.int64), width**-0.5), shape
    )
