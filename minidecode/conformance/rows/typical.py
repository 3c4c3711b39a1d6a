"""The tokens of typical surprise: inputs that find mistakes, and what is right."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from ..sizes import make_large_scores

FETCHED = ("scores_RV",)  # the NumPy code sorts row by row

INF, NAN = np.inf, np.nan


def make_arguments(rows: list, mass: float, least: int = 1) -> tuple:
    """(scores_RV, mass, least)"""
    return np.array(rows, np.float32), mass, least


@st.composite
def draw_inputs(draw):
    """Few different scores, so that many are equal; masses that n equal tokens hold exactly, small and large ones."""
    R, V = draw(st.integers(1, 3)), draw(st.integers(1, 12))
    score = st.sampled_from([0.0, -0.0, -1.0, 2.0, -3.5, 0.25, -40.0, -INF])
    rows = [draw(st.lists(score, min_size=V, max_size=V)) for _ in range(R)]
    if draw(st.integers(0, 5)) == 0:
        rows[-1] = [-INF] * V
    mass = draw(st.sampled_from([1e-9, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0]))
    return make_arguments(rows, mass, draw(st.integers(1, 3)))


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)
    cases = [
        make_arguments([[0.0]], 0.5),
        make_arguments([[3, 1, 2, 0, 2], [0, 0, 3, 0, 0]], 0.4),  # the likeliest may go
        make_arguments([[4, 1, 1, 1, 1, 1, 1, 0]], 0.2),  # and does
        make_arguments([[1, 1, 1, 1], [0, 2, 0, 2]], 0.5),  # what ties with the last stays
        make_arguments([[5, 0, 0, 0], [0, 1, 2, 3]], 1e-9),  # one stays in any case
        make_arguments([[9, 3, 2, 1], [9, 1, 1, 1]], 0.1, 3),  # and two more, of equal ones those in lower columns
        make_arguments([[1, 2, 3]], 0.1, 9),  # more than there are
        make_arguments([[2, 1, 1, 1, 1]], 0.99, 2),
        make_arguments([[-INF, 1, -INF, 0], [-INF] * 4], 0.6, 3),
        make_arguments([[0.0, -29.0, -40.0, -29.0]], 1.0, 2),  # a probability of 0, as far as it is weighed
        make_arguments([[9999.0, 9998.9, 9000.0], [-9999.0, -9999.5, -9999.0]], 0.6),
        make_arguments([[NAN] * 5, [3, 1, 2, 0, 2], [NAN, 1, -INF, 2, 3]], 0.8),  # mean nothing, but do no harm
        make_arguments([[3, 1, 2, 0, 2], [INF, 1, 2, INF, 0]], 0.8, 2),
    ]
    for V, mass in [(31, 0.9), (129, 0.2), (300, 0.95)]:  # past warps and blocks
        cases.append(make_arguments(3 * rng.standard_normal((2, V)) - 6, mass, 2))
    close = np.zeros((1, 200))
    close[0, 1:] = 1 + np.arange(199) * 2.0**-22  # all in one bin, at first
    return [*cases, make_arguments(close, 0.3), make_arguments(rng.permuted(close, axis=1), 0.7)]


def large_cases() -> list[tuple]:
    """Many rows, wide ones, and widths at the edges of blocks; flat ones, of which many tokens hold the mass."""
    rng = np.random.default_rng(1)
    cases = [make_arguments(scores_RV, 0.9) for scores_RV in make_large_scores(rng, 3)]
    return [*cases, make_arguments(0.1 * rng.standard_normal((2, 3000)), 0.9, 2)]


def oracle(scores_RV, mass, least):
    """Sorts lists, and sums in Python's whole numbers, which have no end."""
    result_RV = scores_RV.copy()
    for r, row in enumerate(scores_RV.tolist()):
        if -INF < (largest := max(row)) < INF and not any(map(math.isnan, row)):
            x_V = [largest - score for score in row]
            weight_V = [int(math.exp(-x) * 2**44) for x in x_V]
            mean = float(sum(int(w * x) for w, x in zip(weight_V, x_V, strict=True) if w)) / float(sum(weight_V))
            order = sorted(range(len(row)), key=lambda v, x_V=x_V, mean=mean: (abs(x_V[v] - mean), v))
            need, last, held = math.ceil(mass * float(sum(weight_V))), 0, 0
            for v in order:
                held, last = held + weight_V[v], v
                if held >= need:
                    break
            for place, v in enumerate(order):
                if abs(x_V[v] - mean) > abs(x_V[last] - mean) and place >= least:
                    result_RV[r, v] = -INF
    return result_RV


def replace_undefined_results(mine_RV, right_RV, scores_RV, mass, least):
    """A row that holds NaN or plus infinity may become anything."""
    return np.where((scores_RV < INF).all(axis=1, keepdims=True), mine_RV, right_RV)


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of GPT-2 for 32 texts."""
    rng = np.random.default_rng(seed)
    R, V, mass = 32, 50257, 0.9
    return (3 * rng.standard_normal((R, V)).astype(np.float32), mass), f"{R} rows, V = {V:,}, mass = {mass}"
