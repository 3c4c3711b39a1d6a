"""Following the beams: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..sizes import BOUNDARIES, LARGE_HEADS, MANY_ROWS, POSITIONS, ROWS, WIDTH


def make_arguments(parents: list[int], length: int, M: int, G: int = 1, X: int = 1, dtype=np.float32) -> tuple:
    """(k_RGMX, parent_R, length_R); no two places hold the same number, so that each says where it comes from.

    (In float16 as far as there are as many.)
    """
    R = len(parents)
    k_RGMX = np.arange(1, 1 + R * G * M * X, dtype=np.float32).reshape(R, G, M, X)
    return k_RGMX.astype(dtype), np.array(parents), np.full(R, length)


@st.composite
def draw_inputs(draw):
    """Any row may go on from any other, or stay; from nothing written to everything."""
    R, M = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    parents = draw(st.lists(st.integers(0, R - 1), min_size=R, max_size=R))
    shape, dtype = (draw(st.integers(1, 3)), draw(st.integers(1, 3))), draw(st.sampled_from([np.float32, np.float16]))
    return make_arguments(parents, draw(st.integers(0, M)), M, *shape, dtype)


def planted_cases() -> list[tuple]:
    cases = [
        make_arguments([1, 0], 2, 3),  # rows change places: the first write destroys what the other row needs
        make_arguments([1, 2, 0], 3, 3, 2),  # a ring
        make_arguments([0, 0, 1, 2], 2, 4),  # each from the one before it: wrong if rows are written in order
        make_arguments([1, 2, 3, 3], 2, 4),  # and from the one behind it: wrong if they are written in reverse
        make_arguments([0, 1, 2], 4, 4),  # all stay
        make_arguments([2, 2, 2], 1, 4, 2, 3),  # all from one, which stays
        make_arguments([1, 0, 0, 3], 0, 2),  # nothing is written yet
        make_arguments([3, 2, 1, 0, 4, 6, 7, 5], 5, 6, 3, 5),  # two rings and one that stays
        make_arguments([1, 2, 0], 3, 5, 2, 3, np.float16),  # an odd number of halves: no whole words
    ]
    rng = np.random.default_rng(0)
    past = [(8, 2, 20, 33, 17), (300, 1, 3, 2, 2), (6, 1, 70, 64, 69), (70, 2, 4, 2, 3)]  # blocks, rooms, tiles, warps
    for R, G, M, X, length in past:
        cases.append(make_arguments(rng.integers(0, R, R).tolist(), length, M, G, X))
    return cases


def large_cases() -> list[tuple]:
    """Many rows, late positions, many heads, wide ones, and counts of positions at the edges of blocks."""
    cases = [make_arguments([1, 0], length, length + 1) for length in (*BOUNDARIES, POSITIONS)]
    cases.append(make_arguments(list(range(ROWS))[::-1], 1, 2, X=WIDTH))
    cases += [make_arguments([1, 0], 1, 2, G, X) for G, X in LARGE_HEADS]
    return [*cases, make_arguments([*range(MANY_ROWS - 2), MANY_ROWS - 1, MANY_ROWS - 2], 1, 1)]


REPEATED = {"k_RGMX": 1}  # more rows than fit would take version 1
WHEN_REPEATED = {"room": 64}  # a full cache: each block of a launch has as much to move


def oracle(k_RGMX, parent_R, length_R):
    """A new cache, place by place; what is not written yet stays."""
    result_RGMX = np.empty_like(k_RGMX)
    for r, g, m, x in np.ndindex(k_RGMX.shape):
        result_RGMX[r, g, m, x] = k_RGMX[parent_R[r] if m < length_R[r] else r, g, m, x]
    return result_RGMX


def make_paper_inputs(*, seed: int = 0, room: int = 128) -> tuple[tuple, str]:
    """GPT-2's keys of one layer: 32 sentences of 4 beams with 64 generated positions, and room for as many more."""
    rng = np.random.default_rng(seed)
    sentences, beams, length = 32, 4, 64
    k_RGMX = rng.standard_normal((sentences * beams, 12, room, 64)).astype(np.float32)
    best = np.sort(rng.integers(0, beams, (sentences, beams)), axis=1)  # the best beam has most children
    parent_R = (best + beams * np.arange(sentences)[:, None]).reshape(-1)
    shape = f"{sentences} sentences of {beams} beams, {length} positions of 12 heads of 64 numbers"
    return (k_RGMX, parent_R, np.full(sentences * beams, length)), shape
