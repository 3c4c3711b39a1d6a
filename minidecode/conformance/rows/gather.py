"""Log-probabilities of sampled tokens: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ...ops import FINE, NONE_LEFT, NOT_A_NUMBER
from ..sizes import BOUNDARIES, MANY_ROWS, ROWS, SEVERAL_WIDE, WIDE, WIDTH

INF, NAN = np.inf, np.nan


def make_arguments(tokens: list, scores: list, logprobs: list | None) -> tuple:
    """(token_R, scores_RV, logprobs_RV)"""
    return np.array(tokens), np.array(scores, np.float32), None if logprobs is None else np.array(logprobs, np.float32)


@st.composite
def draw_inputs(draw):
    """Numbers that say where they stand; now and then one that is none."""
    R, V = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    scores = -1 - np.arange(R * V, dtype=float).reshape(R, V)
    logprobs = scores / 4
    for table in (scores, logprobs):
        bad = draw(st.lists(st.tuples(st.integers(0, R - 1), st.integers(0, V - 1)), max_size=2))
        for place in bad:
            table[place] = draw(st.sampled_from([NAN, -INF]))
    tokens = [draw(st.integers(0, V - 1)) for _ in range(R)]
    return make_arguments(tokens, scores, logprobs if draw(st.booleans()) else None)


def planted_cases() -> list[tuple]:
    rows, logs = [[1.0, 3.0, 2.0], [0.5, -1.0, 0.25]], [[-3.0, -1.0, -2.0], [-0.5, -1.5, -0.75]]
    cases = [
        make_arguments([1, 2], rows, logs),
        make_arguments([2, 0], rows, None),
        make_arguments([0, 1], [[-INF] * 3, rows[0]], logs),  # none is left in the first row
        make_arguments([0, 1], [[-INF] * 3, rows[0]], None),
        make_arguments([1, 1], [[-INF, 0.0, -INF], rows[0]], [[-1.0, -INF, -2.0], logs[0]]),  # certain, and impossible
        make_arguments([0, 1], [[NAN] * 3, rows[0]], [[NAN] * 3, logs[0]]),  # the model is broken
        make_arguments([1, 0], [[-INF, 0.0, -INF], rows[1]], [[NAN] * 3, logs[1]]),  # though a token is forced
        make_arguments([0, 1], [[-INF] * 3, rows[0]], [[NAN] * 3, logs[0]]),  # of both, this one
        make_arguments([0, 0], [[NAN, 0.0, 1.0], rows[1]], logs),
    ]
    rng = np.random.default_rng(0)
    for R, V in [(33, 5), (129, 3), (2, 2049)]:  # past warps and blocks
        scores_RV, logprobs_RV = rng.standard_normal((2, R, V))
        scores_RV[-1] = -INF
        cases.append(make_arguments(rng.integers(0, V, R), scores_RV, logprobs_RV))
    return cases


def large_cases() -> list[tuple]:
    """Many rows, counts of them at the edges of blocks, and tokens that sixteen bits do not count."""
    rng, cases = np.random.default_rng(1), []
    for R, V in [*((n, 2) for n in BOUNDARIES), (ROWS, WIDTH), SEVERAL_WIDE, (1, WIDE), (MANY_ROWS, 1)]:
        scores_RV, logprobs_RV = rng.standard_normal((2, R, V))
        cases.append(make_arguments([*rng.integers(0, V, R - 1), V - 1], scores_RV, logprobs_RV))
    return cases


def oracle(token_R, scores_RV, logprobs_RV):
    """Row by row."""
    tables = scores_RV, scores_RV if logprobs_RV is None else logprobs_RV
    pairs = [[float(table[r, token]) for table in tables] for r, token in enumerate(token_R)]
    trouble = [NOT_A_NUMBER if s != s or p != p else NONE_LEFT if s == -INF else FINE for s, p in pairs]
    return np.array([p for _, p in pairs]), np.array(trouble)


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of GPT-2 for 32 texts, of which one has met NaN."""
    rng = np.random.default_rng(seed)
    scores_RV, logprobs_RV = rng.standard_normal((2, 32, 50257)).astype(np.float32)
    scores_RV[seed % 32], logprobs_RV[seed % 32] = NAN, NAN
    return (rng.integers(0, 50257, 32), scores_RV, logprobs_RV), "32 rows, V = 50,257"
