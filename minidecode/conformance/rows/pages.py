"""Copies of pages: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..sizes import BOUNDARIES, LARGE_HEADS, MANY_ROWS, POSITIONS, ROWS, WIDTH


def make_arguments(copies: list[tuple[int, int]], pages: int, G: int = 1, M: int = 2, X: int = 1, dtype=np.float32):
    """(k_XGMX, source_R, target_R); no two places hold the same number, as far as float16 has as many."""
    k_XGMX = np.arange(1, 1 + pages * G * M * X, dtype=np.float32).reshape(pages, G, M, X)
    source_R, target_R = np.array(copies, np.int64).reshape(-1, 2).T
    return k_XGMX.astype(dtype), source_R.copy(), target_R.copy()


@st.composite
def draw_inputs(draw):
    """Any row may get any free page; several may copy the same page, and the last one may stay in it."""
    R, held = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    sources = draw(st.lists(st.integers(0, held - 1), min_size=R, max_size=R))
    free = draw(st.permutations(range(held, held + R)))
    copies = [(s, draw(st.sampled_from([s, t]))) for s, t in zip(sources, free, strict=True)]
    shape = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    return make_arguments(copies, held + R, *shape, draw(st.sampled_from([np.float32, np.float16])))


def planted_cases() -> list[tuple]:
    return [
        make_arguments([(0, 3), (0, 2), (0, 1), (0, 0)], 5),  # four beams of one page; the last one stays in it
        make_arguments([(1, 1), (2, 2)], 3),  # all stay
        make_arguments([(4, 0), (3, 1)], 5, 2, 16, 3),  # to pages in front
        make_arguments([(0, 5), (1, 4), (2, 3)], 6, 3, 3, 5, np.float16),  # an odd number of halves: no whole words
        make_arguments([(7, 2), (7, 7), (1, 0)], 9, 12, 16, 64),  # GPT-2's pages
    ]


def large_cases() -> list[tuple]:
    """Many rows, many pages, many heads, wide ones, and pages at the edges of blocks."""
    cases = [make_arguments([(0, 1)], 2, 1, M) for M in (*BOUNDARIES, POSITIONS)]
    cases += [make_arguments([(r, R + r) for r in range(R)], 2 * R, 1, 1, WIDTH) for R in (ROWS, MANY_ROWS)]
    return [*cases, *(make_arguments([(1, 0)], 2, G, 2, X) for G, X in LARGE_HEADS)]


def oracle(k_XGMX, source_R, target_R):
    """The new pages, place by place; all others stay."""
    result_XGMX = k_XGMX.copy()
    for r, (g, m, x) in ((r, at) for r in range(len(source_R)) for at in np.ndindex(k_XGMX.shape[1:])):
        result_XGMX[target_R[r], g, m, x] = k_XGMX[source_R[r], g, m, x]
    return result_XGMX


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """GPT-2's keys of one layer: 32 sentences whose 4 beams go on from one page each."""
    k_XGMX = np.random.default_rng(seed).standard_normal((512, 12, 16, 64)).astype(np.float32)
    source_R = np.repeat(np.arange(32), 4)
    target_R = np.where(np.arange(128) % 4 == 3, source_R, 32 + np.arange(128))
    return (k_XGMX, source_R, target_R), "32 sentences of 4 beams, 3 copies each of 16 positions of 12 heads of 64"
