"""Scores divided by a temperature: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..sizes import BOUNDARIES, MANY_ROWS, ROWS, SEVERAL_WIDE, WIDE, WIDTH

INF, NAN = np.inf, np.nan


def make_arguments(rows: list, temperature: float) -> tuple:
    """(scores_RV, temperature)"""
    return np.array(rows, np.float32), temperature


@st.composite
def draw_inputs(draw):
    """Few different scores, minus infinity among them; temperatures that are powers of two, and others."""
    R, V = draw(st.integers(1, 3)), draw(st.integers(1, 40))
    score = st.sampled_from([0.0, 1.0, -2.0, 3.5, -4.2, 0.1, -INF])
    rows = st.lists(st.lists(score, min_size=V, max_size=V), min_size=R, max_size=R)
    return make_arguments(draw(rows), draw(st.sampled_from([0.5, 0.7, 1.0, 1.3, 3.0])))


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)
    cases = [
        make_arguments([[1.0, 2.0, -3.0], [4.0, -5.0, 6.0]], 0.5),
        make_arguments([[1.0, 2.0, -3.0], [4.0, -5.0, 6.0]], 4.0),
        make_arguments([[0.1, -0.3, 0.7, 5.3]], 0.7),  # a product with 1/0.7 is another number here and there
        make_arguments([[-INF, 0.0, -0.0, 1.0]], 2.5),
        make_arguments([[NAN, INF, 1.0]], 2.0),
        make_arguments([[1e-44, -1e-40, 3e38]], 1.7),
        make_arguments([[9.0, 7.0]], 0.1),  # which float32 has not
    ]
    return [*cases, *(make_arguments(5 * rng.standard_normal((3, V)), 0.9) for V in (31, 129, 1025))]


def large_cases() -> list[tuple]:
    """Many rows, wide ones, and widths at the edges of blocks."""
    rng = np.random.default_rng(1)
    shapes = [*((2, V) for V in BOUNDARIES), (ROWS, WIDTH), SEVERAL_WIDE, (1, WIDE), (MANY_ROWS, 1)]
    return [make_arguments(5 * rng.standard_normal(shape), 0.9) for shape in shapes]


def oracle(scores_RV, temperature):
    """The quotient in float64, of the temperature as float32 has it: rounded once more it is float32's own."""
    divisor = float(np.float32(temperature))
    return np.array([[score / divisor for score in row] for row in scores_RV.tolist()]).astype(np.float32)


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of GPT-2 for 32 texts."""
    scores_RV = 3 * np.random.default_rng(seed).standard_normal((32, 50257)).astype(np.float32)
    return (scores_RV, 0.8), "32 rows, V = 50,257"
