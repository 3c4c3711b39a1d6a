"""The k likeliest tokens: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..sizes import BOUNDARIES, MANY_ROWS, ROWS, SEVERAL_WIDE, WIDE, WIDTH

INF, NAN = np.inf, np.nan


def make_arguments(rows: list, k: int) -> tuple:
    """(scores_RV, k)"""
    return np.array(rows, np.float32), k


@st.composite
def draw_inputs(draw):
    """Few different scores, so that many are equal, zeros of both signs among them; now and then nothing possible."""
    R, V = draw(st.integers(1, 3)), draw(st.integers(1, 30))
    score = st.sampled_from([0.0, -0.0, -1.0, 2.0, -3.5, 0.25, -INF])
    rows = [draw(st.lists(score, min_size=V, max_size=V)) for _ in range(R)]
    if draw(st.integers(0, 5)) == 0:
        rows[-1] = [-INF] * V
    return make_arguments(rows, draw(st.integers(1, V + 1)))


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)
    cases = [
        make_arguments([[0.0]], 1),
        make_arguments([[3, 1, 2, 5, 4], [-1, -2, -3, -4, -5]], 2),  # each row has its own threshold
        make_arguments([[-2, -5, -4, -3, -6, -7], [-7, -6, -3, 4, 5, 2]], 4),  # below zero, and on both sides of it
        make_arguments([[1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 1, 1]], 3),  # more than k are equal to the k-th
        make_arguments([[5, 5, 4, 3, 2], [1, 2, 3, 3, 3]], 2),  # equal ones count each
        make_arguments([[0.0, -0.0, -1.0, -2.0], [-0.0, -1.0, 0.0, 0.0]], 1),  # zero has two signs
        make_arguments([[-INF, -INF, 1, -INF], [-INF] * 4], 3),  # fewer that are possible than stay
        make_arguments([[1, 2, 3]], 3),
        make_arguments([[1, 2, 3]], 50),
        make_arguments([[1e-45, -1e-45, 0.0, 3.4e38, -3.4e38]], 3),  # the smallest numbers and the largest
        make_arguments([[NAN] * 5, [3, 1, 2, 5, 4], [NAN, 1, -INF, 2, 3]], 2),  # mean nothing, but do no harm
    ]
    for V, k in [(31, 30), (129, 50), (300, 1), (300, 128), (300, 129)]:  # past warps and blocks
        scores_RV = 5 * rng.standard_normal((2, V)) - 6
        scores_RV[0, -1] = 9.0  # the last column is the best
        cases.append(make_arguments(scores_RV, k))
    together = rng.standard_normal((1, 700))
    together[0, 5::128] += 20  # all large scores are one thread's
    many = np.zeros((1, 2200))  # more reach any threshold than there is room for
    many[0, rng.permutation(2200)[:60]] = -1.0
    return [*cases, make_arguments(together, 3), make_arguments(many, 3)]


def large_cases() -> list[tuple]:
    """Many rows, wide ones, and k and widths at the edges of blocks: the last token is the best."""
    rng, cases = np.random.default_rng(1), []
    edges = [(1, n, n - 1) for n in BOUNDARIES] + [(1, 600, n) for n in BOUNDARIES]
    for R, V, k in [*edges, (ROWS, WIDTH, 2), (*SEVERAL_WIDE, 50), (1, WIDE, 50), (MANY_ROWS, 2, 1)]:
        scores_RV = rng.standard_normal((R, V))
        scores_RV[0, -1] = 9.0
        cases.append(make_arguments(scores_RV, k))
    R, V = SEVERAL_WIDE
    scores_RV = rng.standard_normal((R, V))
    scores_RV[1, V // 2] = np.nan  # in its own row alone
    return [*cases, make_arguments(scores_RV, V - 100)]


def oracle(scores_RV, k):
    """A token stays if fewer than k are above it."""
    result_RV = scores_RV.copy()
    for r, row in enumerate(scores_RV.tolist()):
        falling = sorted(row, reverse=True)
        for v, score in enumerate(row):
            if k <= len(row) and score < falling[k - 1]:
                result_RV[r, v] = -INF
    return result_RV


def replace_undefined_results(mine_RV, right_RV, scores_RV, k):
    """A row that holds NaN may become anything."""
    return np.where(np.isnan(scores_RV).any(axis=1, keepdims=True), right_RV, mine_RV)


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of GPT-2 for 32 texts, with transformers' k."""
    rng = np.random.default_rng(seed)
    R, V, k = 32, 50257, 50
    return (3 * rng.standard_normal((R, V)).astype(np.float32), k), f"{R} rows, V = {V:,}, k = {k}"
