"""The fewest tokens that hold a share of the probability: inputs that find mistakes, and what is right."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from ..sizes import make_large_scores

INF, NAN = np.inf, np.nan


def make_arguments(rows: list, p: float, least: int = 1) -> tuple:
    """(scores_RV, p, least)"""
    return np.array(rows, np.float32), p, least


@st.composite
def draw_inputs(draw):
    """Few different scores, so that many are equal; shares that n equal tokens hold exactly, small and large ones."""
    R, V = draw(st.integers(1, 3)), draw(st.integers(1, 16))
    score = st.sampled_from([0.0, -0.0, -1.0, 2.0, -3.5, 0.25, -40.0, -INF])
    rows = [draw(st.lists(score, min_size=V, max_size=V)) for _ in range(R)]
    if draw(st.integers(0, 5)) == 0:
        rows[-1] = [-INF] * V
    p = draw(st.sampled_from([1e-9, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0]))
    return make_arguments(rows, p, draw(st.integers(1, 3)))


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)
    cases = [
        make_arguments([[0.0]], 0.5),
        make_arguments([[3, 1, 2, 0, 2], [0, 0, 3, 0, 0]], 0.8),  # each row has its own sum
        make_arguments([[1, 1, 1, 1], [0, 2, 0, 2]], 0.5),  # exactly half: no token more
        make_arguments([[1, 1, 1, 1], [0, 2, 0, 2]], 0.5 + 1e-9),  # and one more; of equal ones the higher columns stay
        make_arguments([[4, 4, 4]], 2 / 3),
        make_arguments([[5, 0, 0, 0], [0, 1, 2, 3]], 1e-9),  # the likeliest stays in any case
        make_arguments([[9, 3, 2, 1], [9, 1, 1, 1]], 0.1, 3),  # and two more
        make_arguments([[1, 2, 3]], 0.1, 9),  # more than there are
        make_arguments([[-INF, 1, -INF, 0], [-INF] * 4], 0.6),
        make_arguments([[0.0, -0.0, -40.0, 0.0], [-0.0, 0.0, -0.0, -INF]], 0.5),  # zero has two signs
        make_arguments([[0.0, -29.0, -40.0, -29.0]], 1.0),  # a probability of 0, as far as it is weighed
        make_arguments([[9999.0, 9998.9, 9000.0], [-9999.0, -9999.5, -9999.0]], 0.6),
        make_arguments([[0.0, -1.0, -2.0, -3.0, -4.0, -5.0]], 0.99),
        make_arguments([[NAN] * 5, [3, 1, 2, 0, 2], [NAN, 1, -INF, 2, 3]], 0.8),  # mean nothing, but do no harm
        make_arguments([[3, 1, 2, 0, 2], [INF, 1, 2, INF, 0]], 0.8),
    ]
    for V, p in [(31, 0.9), (129, 0.5), (300, 0.9), (300, 0.999)]:  # past warps and blocks; few stay, and nearly all
        cases.append(make_arguments(3 * rng.standard_normal((2, V)) - 6, p, 2))
    together = rng.standard_normal((1, 400))
    together[0, 5::128] += 20  # all large scores are one thread's
    flat = np.zeros((1, 1100))  # more survive than there is room for
    flat[0, rng.permutation(1100)[:60]] = -1.0
    return [*cases, make_arguments(together, 0.7), make_arguments(flat, 0.3)]


def large_cases() -> list[tuple]:
    """Many rows, wide ones, and widths at the edges of blocks: the last token is the best."""
    return [make_arguments(scores_RV, 0.9) for scores_RV in make_large_scores(np.random.default_rng(1), 3)]


def oracle(scores_RV, p, least):
    """Sorts lists, and sums in Python's whole numbers, which have no end."""
    result_RV = scores_RV.copy()
    for r, row in enumerate(scores_RV.tolist()):
        if -INF < max(row) < INF and not any(map(math.isnan, row)):
            best = max(row)
            weight_V = [int(math.exp(score - best) * 2**44) for score in row]
            most, gone = int((1 - p) * sum(weight_V)), 0
            for v in sorted(range(len(row)), key=lambda v, row=row: (row[v], v))[: max(len(row) - least, 0)]:
                gone += weight_V[v]
                if gone > most:
                    break
                result_RV[r, v] = -INF
    return result_RV


def replace_undefined_results(mine_RV, right_RV, scores_RV, p, least):
    """A row that holds NaN or plus infinity may become anything."""
    return np.where((scores_RV < INF).all(axis=1, keepdims=True), mine_RV, right_RV)


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of GPT-2 for 32 texts."""
    rng = np.random.default_rng(seed)
    R, V, p = 32, 50257, 0.9
    return (3 * rng.standard_normal((R, V)).astype(np.float32), p), f"{R} rows, V = {V:,}, p = {p}"
