"""Columns of candidates as beams and tokens: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..sizes import MANY_ROWS, ROWS, WIDE, WIDTH


def arguments_of(columns: list, V: int) -> tuple:
    """(index_BC, V)"""
    return np.array(columns, np.int64), V


@st.composite
def inputs(draw):
    """Columns at the ends of beams, and between."""
    B, C, V = draw(st.integers(1, 3)), draw(st.integers(1, 6)), draw(st.integers(1, 9))
    column = st.integers(0, 5 * V - 1)
    return arguments_of([draw(st.lists(column, min_size=C, max_size=C)) for _ in range(B)], V)


def planted() -> list[tuple]:
    rng = np.random.default_rng(0)
    cases = [
        arguments_of([[0, 1, 6, 7, 13], [20, 14, 3, 8, 2]], 7),  # either end of a beam
        arguments_of([[0, 1, 2], [2, 1, 0]], 1),
        arguments_of([[5, 4, 3]], 90),
        arguments_of([[250_111 + 250_112 * w for w in (79, 3, 0)]], 250_112),  # more columns than float32 can count
        arguments_of([[2**33 + 5, 2**33 - 1]], 2**20),
        arguments_of(rng.integers(0, 4 * 50257, (2, 8)), 50257),
    ]
    for B, C in [(1, 33), (3, 129), (40, 5)]:  # past warps and blocks
        cases.append(arguments_of(rng.integers(0, 700, (B, C)), 100))
    return cases


def large() -> list[tuple]:
    """Many sentences, and tokens that sixteen bits do not count."""
    rng = np.random.default_rng(1)
    shapes = [(ROWS, WIDTH), (MANY_ROWS, 1)]
    return [arguments_of(rng.integers(0, 4 * WIDE, shape), WIDE) for shape in shapes]


def oracle(index_BC, V):
    """The results by Python's whole numbers."""
    pairs = [[divmod(x, V) for x in row] for row in index_BC.tolist()]
    return tuple(np.array([[pair[k] for pair in row] for row in pairs], np.int64) for k in (0, 1))


def paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of GPT-2 for 8 sentences of 4 beams, each of which needs 8 candidates."""
    index_BC = np.random.default_rng(seed).integers(0, 4 * 50257, (8, 8))
    return (index_BC, 50257), "8 sentences of 4 beams, V = 50,257, 8 candidates each"
