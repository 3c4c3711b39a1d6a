"""Log-probabilities that become scores of whole texts: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..sizes import BOUNDARIES, MANY_ROWS, ROWS, SEVERAL_WIDE, WIDE, WIDTH

INF, NAN = np.inf, np.nan


def make_arguments(rows: list, running: list) -> tuple:
    """(scores_RV, running_R)"""
    return np.array(rows, np.float32), np.array(running, np.float32)


@st.composite
def draw_inputs(draw):
    """Few different scores; rows out of play among the others."""
    R, V = draw(st.integers(1, 4)), draw(st.integers(1, 40))
    score = st.sampled_from([0.0, -1.0, -2.5, -4.2, 0.1, -INF])
    rows = st.lists(st.lists(score, min_size=V, max_size=V), min_size=R, max_size=R)
    base = st.sampled_from([0.0, -1.0, -3.7, -1e9, -INF])
    return make_arguments(draw(rows), draw(st.lists(base, min_size=R, max_size=R)))


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)
    cases = [
        make_arguments([[-1.0, -2.0, -3.0], [-4.0, -5.0, -6.0]], [-0.5, -7.0]),
        make_arguments([[-1.0, -2.0], [-4.0, -5.0], [-1.5, -0.25]], [0.0, -1e9, -INF]),  # in play or not
        make_arguments([[-INF, -2.0, 0.0], [NAN, NAN, NAN]], [-1.0, -2.0]),
        make_arguments([[-0.1, -0.2, -0.3]], [-0.7]),
        make_arguments([[-1.0], [-2.0], [-3.0]], [-1.0, -2.0, -3.0]),
    ]
    for R, V in [(3, 31), (2, 129), (5, 1025), (130, 3)]:
        cases.append(make_arguments(-5 * rng.random((R, V)), -9 * rng.random(R)))
    return cases


def large_cases() -> list[tuple]:
    """Many rows, wide ones, and widths at the edges of blocks."""
    rng = np.random.default_rng(1)
    shapes = [*((2, V) for V in BOUNDARIES), (ROWS, WIDTH), SEVERAL_WIDE, (1, WIDE), (MANY_ROWS, 1)]
    return [make_arguments(-5 * rng.random(shape), -9 * rng.random(shape[0])) for shape in shapes]


def oracle(scores_RV, running_R):
    """The sum in float64, which rounded is float32's own."""
    rows = zip(scores_RV.tolist(), running_R.tolist(), strict=True)
    return np.array([[score + running for score in row] for row, running in rows]).astype(np.float32)


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of GPT-2 for 8 sentences of 4 beams."""
    rng = np.random.default_rng(seed)
    scores_RV = -10 * rng.random((32, 50257), np.float32)
    return (scores_RV, -20 * rng.random(32, np.float32)), "32 rows, V = 50,257"
