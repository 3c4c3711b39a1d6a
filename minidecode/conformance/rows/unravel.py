"""Columns of candidates as beams and tokens: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..sizes import MANY_ROWS, ROWS, WIDE, WIDTH


def make_arguments(columns: list, V: int) -> tuple:
    """(index_BC, V)"""
    return np.array(columns, np.int64), V


@st.composite
def draw_inputs(draw):
    """Columns at the ends of beams, and between."""
    B, C, V = draw(st.integers(1, 3)), draw(st.integers(1, 6)), draw(st.integers(1, 9))
    column = st.integers(0, 5 * V - 1)
    return make_arguments([draw(st.lists(column, min_size=C, max_size=C)) for _ in range(B)], V)


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)
    cases = [
        make_arguments([[0, 1, 6, 7, 13], [20, 14, 3, 8, 2]], 7),  # either end of a beam
        make_arguments([[0, 1, 2], [2, 1, 0]], 1),
        make_arguments([[5, 4, 3]], 90),
        make_arguments([[250_111 + 250_112 * w for w in (79, 3, 0)]], 250_112),  # more columns than float32 can count
        make_arguments([[2**33 + 5, 2**33 - 1]], 2**20),
        make_arguments(rng.integers(0, 4 * 50257, (2, 8)), 50257),
    ]
    for B, C in [(1, 33), (3, 129), (40, 5)]:  # past warps and blocks
        cases.append(make_arguments(rng.integers(0, 700, (B, C)), 100))
    return cases


def large_cases() -> list[tuple]:
    """Many sentences, and tokens that sixteen bits do not count."""
    rng = np.random.default_rng(1)
    shapes = [(ROWS, WIDTH), (MANY_ROWS, 1)]
    return [make_arguments(rng.integers(0, 4 * WIDE, shape), WIDE) for shape in shapes]


def oracle(index_BC, V):
    """The results by Python's whole numbers."""
    pairs = [[divmod(x, V) for x in row] for row in index_BC.tolist()]
    return tuple(np.array([[pair[k] for pair in row] for row in pairs], np.int64) for k in (0, 1))


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of GPT-2 for 8 sentences of 4 beams, each of which needs 8 candidates."""
    index_BC = np.random.default_rng(seed).integers(0, 4 * 50257, (8, 8))
    return (index_BC, 50257), "8 sentences of 4 beams, V = 50,257, 8 candidates each"
