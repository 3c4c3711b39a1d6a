"""The best continuations of a beam: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..sizes import BOUNDARIES, MANY_ROWS, ROWS, SEVERAL_WIDE, WIDE, WIDTH

INF, NAN = np.inf, np.nan


def make_arguments(rows: list, C: int) -> tuple:
    """(scores_BX, C)"""
    return np.array(rows, np.float32), C


@st.composite
def draw_inputs(draw):
    """Few different scores, so that many are equal; now and then a row of -inf alone, or NaN in a row."""
    B, X = draw(st.integers(1, 3)), draw(st.integers(1, 40))
    score = st.sampled_from([0.0, -1.0, 2.0, -3.5, 0.25, -INF])
    if draw(st.integers(0, 5)) == 0:
        score |= st.just(NAN)
    rows = [draw(st.lists(score, min_size=X, max_size=X)) for _ in range(B)]
    if draw(st.integers(0, 5)) == 0:
        rows[-1] = [-INF] * X
    return make_arguments(rows, draw(st.integers(1, min(X, 6))))


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)
    cases = [
        make_arguments([[0.0]], 1),
        make_arguments([[3, 1, 2, 5, 4], [1, 2, 3, 4, 5]], 2),
        make_arguments([[-2, -5, -4, -3, -6, -7], [-7, -6, -3, -4, -5, -2]], 4),  # below zero, the last one too
        make_arguments([[1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 1, 1]], 3),  # equal at the edge
        make_arguments([[9, 0, 8, 0, 7, 0, 6, 0], [0, 9, 0, 8, 0, 7, 0, 6]], 4),  # the best side by side in few groups
        make_arguments([[-INF, -INF, 1, -INF], [-INF] * 4], 3),  # fewer that are possible than are asked for
        make_arguments([[0, 5, NAN, 7], [4, 3, 2, 1], [NAN] * 4], 2),  # NaN in its own sentence alone
        make_arguments([[INF, 1, INF, 0], [-INF, INF, 2, 2]], 3),
        make_arguments(np.sort(rng.standard_normal((1, 40))), 40),  # all of them, from the worst on
    ]
    close_BX = rng.permuted(np.tile(np.arange(20) * 1e-4, (10, 1)), axis=1)  # in every one of ten sentences
    cases.append(make_arguments(close_BX - 2.0, 4))
    for X in (31, 127, 128, 129, 1023, 1025, 2047, 2049):  # past warps, blocks, lanes and slices
        scores_BX = rng.standard_normal((2, X))
        scores_BX[0, -1] = 9.0  # the last column is the best
        scores_BX[1] = rng.integers(-3, 3, X)
        cases.append(make_arguments(scores_BX, 4))
    for step in (4, 128, 1024):  # all large scores in one group, lane or slice
        scores_BX = rng.standard_normal((2, 2500))
        scores_BX[0, ::step] += 20
        scores_BX[1, 1300 : 1300 + step] += 20
        cases.append(make_arguments(scores_BX, 4))
    many = np.zeros((2, 2500))  # more reach any threshold than version 2 has room for, in slices too
    many[0, rng.permutation(2500)[:900]] = -1.0
    cases += [make_arguments(many, 3), make_arguments(np.full((1, 2100), -INF), 2)]
    wide = -np.abs(rng.standard_normal((1, 5000)))  # beyond the parts that compiled code goes by
    wide[0, [4150, 4990]] = 1.0, 2.0
    cases.append(make_arguments(wide, 3))
    late = rng.standard_normal((1, 2300))
    late[0, 2200] = NAN
    return [*cases, make_arguments(late, 2), make_arguments(rng.standard_normal((1, 131)), 129)]


def large_cases() -> list[tuple]:
    """Widths at the edges of blocks, many sentences, more columns than sixteen bits count: the last are best."""
    rng, cases = np.random.default_rng(1), []
    for X in (*BOUNDARIES, WIDE):
        scores_BX = rng.standard_normal((1, X))
        scores_BX[0, [-1, -2, 0]] = 9.0, 8.0, 7.0
        cases.append(make_arguments(scores_BX, 4))
    many = [((ROWS, WIDTH), 2), (SEVERAL_WIDE, 4), ((MANY_ROWS, 2), 1)]
    cases += [make_arguments(rng.standard_normal(shape), C) for shape, C in many]
    cases.append(make_arguments(rng.integers(-3, 3, SEVERAL_WIDE), 100))  # many equals, and more candidates than a warp
    for X in (40, SEVERAL_WIDE[1]):  # float64: two scores that are one in float32
        scores_BX = np.full((1, X), -1.0)
        scores_BX[0, [3, X - 2]] = 1.0, 1.0 + 2.0**-40
        cases.append((scores_BX, 2))
    return cases


def oracle(scores_BX, C):
    """A sort of lists; a row that holds NaN gives NaN."""
    index = [sorted(range(len(row)), key=lambda x, row=row: (-row[x], x))[:C] for row in scores_BX.tolist()]
    index_BC = np.array(index)
    best_BC = np.take_along_axis(scores_BX, index_BC, axis=1)
    has_nan_B = np.isnan(scores_BX).any(axis=1)
    best_BC[has_nan_B], index_BC[has_nan_B] = NAN, np.arange(C)
    return best_BC, index_BC


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of GPT-2 for 8 sentences of 4 beams, each of which needs 8 candidates."""
    rng = np.random.default_rng(seed)
    B, W, V, C = 8, 4, 50257, 8
    scores_BX = 3 * rng.standard_normal((B, W * V)).astype(np.float32)
    return (scores_BX, C), f"{B} sentences of {W} beams, V = {V:,}, {C} candidates each"
