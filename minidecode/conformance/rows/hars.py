"""A step's candidates straight from the logits: inputs that find mistakes, and which answers are right.

Several are: two candidates whose scores lie within rounding of each other may change places, and the one that is left
out may be either. `find_fault` says what must hold all the same.
"""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from ..bounds import EPS
from ..sizes import BOUNDARIES, MANY_ROWS, ROWS, SEVERAL_WIDE, VOCABULARY, WIDE, WIDTH

INF, NAN = np.inf, np.nan
RISING_RV = np.linspace(-30, 0, 600)[None] + np.array([[0.0], [5.0]])  # the running maximum never stays


def make_arguments(logits: list, base: list, C: int) -> tuple:
    """(logits_RV, base_BW, C)"""
    return np.array(logits, np.float32), np.array(base, np.float32), C


@st.composite
def draw_inputs(draw):
    """Few different logits, some so large that exp overflows; beams far apart, and out of play; now and then NaN."""
    B, W, V = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 20))
    logit = st.sampled_from([0.0, 1.0, -2.0, 3.5, -4.25, 120.0, -INF])
    if draw(st.integers(0, 5)) == 0:
        logit |= st.just(NAN)
    base = st.sampled_from([0.0, -1.0, -3.0, -40.0, -1e9, -INF])
    logits = [draw(st.lists(logit, min_size=V, max_size=V)) for _ in range(B * W)]
    bases = [draw(st.lists(base, min_size=W, max_size=W)) for _ in range(B)]
    return make_arguments(logits, bases, draw(st.integers(1, min(W * V, 6))))


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)
    cases = [
        make_arguments([[1, 0, -1], [3, 0, 2]], [[0, -1]], 3),
        make_arguments([[0, 0, 0, 0], [0, 0, 0, 0]], [[-1, -1]], 4),  # all equal: the lower columns
        make_arguments([[5, 4, 3, 2, 1, 0], [0, 0, 0, 0, 0, 0]], [[0, -90]], 4),  # all of one beam
        make_arguments([[9, 0, 8, 0, 7, 0, 6, 0], [0, 9, 0, 8, 0, 7, 0, 6]], [[0, -INF]], 4),  # one in play, few groups
        make_arguments([[20, 10, 0, 0], [2, 1, 0, 0]], [[-9, 0]], 4),  # logits of one beam larger, its scores smaller
        make_arguments([[200, 199, 0, 198], [-500, -501, -502, -503]], [[-1, -2]], 3),  # exp over- and underflows
        make_arguments([[-INF, 2, -INF], [1, -INF, -INF]], [[-1, -2]], 4),  # fewer that are possible than are asked for
        make_arguments(np.concatenate([[[0, NAN, 1], [2, 1, 0]], [[2, 0, 1], [1, 2, 0]]]), [[0, -1], [-2, -3]], 3),
        make_arguments([[1, 0], [-INF] * 2, [0, 1], [1, 1], [INF, 0], [1, 0]], [[0, -1]] + [[-1, 0]] * 2, 2),  # inf
        make_arguments(rng.standard_normal((10, 9)), -rng.random((5, 2)), 3),
    ]  # fmt: skip
    middle = [[1, 0, 2], [0, NAN, 1], [2, 1, 0], *rng.standard_normal((3, 3))]  # NaN, beams without on either side
    cases.append(make_arguments(middle, [[0, -1, -2]] * 2, 3))
    for logits_RV in make_logits_of_several_widths(rng):
        cases.append(make_arguments(logits_RV, -rng.random((2, 2)), 4))
    for step in (4, 128):  # all large logits in one group or lane, or side by side
        logits_RV = rng.standard_normal((2, 2300))
        logits_RV[0, ::step] += 20
        logits_RV[1, 1300 : 1300 + step] += 20
        cases.append(make_arguments(logits_RV, [[0.0, -0.5]], 4))
    return [*cases, make_arguments(np.zeros((1, 2200)), [[-1.0]], 3), make_arguments(RISING_RV, [[0, 0]], 4),
            make_arguments(rng.standard_normal((2, 66)), [[-1.0, -0.5]], 129)]  # fmt: skip


def make_logits_of_several_widths(rng: np.random.Generator):
    """logits_RV past warps, blocks, lanes and slices: row 0's last one is the best, and row 3 has ties."""
    for V in (31, 129, 1025, 2049):
        logits_RV = 3 * rng.standard_normal((4, V))
        logits_RV[0, -1] = logits_RV[1].max() + 1
        logits_RV[3] = np.round(logits_RV[3])
        yield logits_RV


def compute_logprobs_and_error_bounds(logits_RV):
    """(log-probabilities in float64, how far float32's may lie from them), (R, V)"""
    return compute_scores_and_error_bounds(logits_RV, np.zeros((len(logits_RV), 1)))


def compute_scores_and_error_bounds(logits_RV, base_BW):
    """(log-probability of row r's token v plus the base of its beam, how far a float32 one may lie from it), (B, W*V).

    Rounded are logit - largest, its exponential, the sum (a random walk, or a tree), the logarithm, and each number
    that comes out on the way to the score.
    """
    B, V = len(base_BW), logits_RV.shape[1]
    logits_RV, base_R1 = logits_RV.astype(np.float64), base_BW.reshape(-1, 1).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        below_RV = logits_RV - logits_RV.max(axis=1, keepdims=True)
        log_sum_R1 = np.array([[math.log(math.fsum(e)) if sum(e) > 0 else NAN] for e in np.exp(below_RV)])
        score_RV = below_RV - log_sum_R1 + base_R1
        finite_RV = np.where(np.isneginf(below_RV), 0, below_RV)
        typical_R1 = -(np.exp(finite_RV - log_sum_R1) * finite_RV).sum(axis=1, keepdims=True)
        on_the_way_RV = -2 * finite_RV + 2 * log_sum_R1 + np.abs(finite_RV - log_sum_R1 + base_R1)
        off_RV = EPS * (on_the_way_RV + typical_R1 + math.sqrt(V) / 4 + 2)
    off_RV = np.where(np.isfinite(score_RV), off_RV, 0)
    return score_RV.reshape(B, -1), off_RV.reshape(B, -1)


def large_cases() -> list[tuple]:
    """Widths at the edges of blocks, many sentences, more columns than sixteen bits count: the last are best."""
    rng, cases = np.random.default_rng(1), []
    for W, V in [*((1, V) for V in BOUNDARIES), (2, VOCABULARY), (1, WIDE)]:
        logits_RV = rng.standard_normal((W, V))
        logits_RV[-1, [-1, -2, 0]] = 9.0, 8.0, 7.0
        cases.append(make_arguments(logits_RV, [[-1.0] * W], 4))
    many = [(ROWS, WIDTH, 2), (*SEVERAL_WIDE, 4), (MANY_ROWS, 2, 1)]
    return [*cases, *(make_arguments(rng.standard_normal((B, V)), -rng.random((B, 1)), C) for B, V, C in many)]


def oracle(logits_RV, base_BW, C):
    """The right answer in float64, sorted; NaN for a sentence if one of its rows has no probabilities."""
    score_BX, _ = compute_scores_and_error_bounds(logits_RV, base_BW)
    index_BC = np.argsort(-score_BX, axis=1, kind="stable")[:, :C]
    best_BC = np.take_along_axis(score_BX, index_BC, axis=1)
    best_BC[np.isnan(score_BX).any(axis=1)] = NAN
    return best_BC, *np.divmod(index_BC, logits_RV.shape[1])


def error_bound(logits_RV, base_BW, C):
    """Scores that are each off by a little are, sorted, off by no more than the one that is off most."""
    _, off_BX = compute_scores_and_error_bounds(logits_RV, base_BW)
    _, parent_BC, token_BC = oracle(logits_RV, base_BW, C)
    off_BC = np.take_along_axis(off_BX, parent_BC * logits_RV.shape[1] + token_BC, axis=1)
    largest_BC, exact_BC = np.broadcast_to(off_BC.max(axis=1, keepdims=True), off_BC.shape), np.zeros(off_BC.shape)
    return largest_BC, exact_BC, exact_BC


def find_fault(best_BC, parent_BC, token_BC, logits_RV, base_BW, C) -> str | None:
    """The mistake in an answer, in words: in its scores, their order, or what it leaves out; else None."""
    score_BX, off_BX = compute_scores_and_error_bounds(logits_RV, base_BW)
    logits_BWV = logits_RV.reshape(*base_BW.shape, -1)
    W, V = base_BW.shape[1], logits_RV.shape[1]
    for name, array_BC, many in (("parent_BC", parent_BC, W), ("token_BC", token_BC, V)):
        if not ((array_BC >= 0) & (array_BC < many)).all():
            return f"{name} is {array_BC}; right is anything from 0 to {many - 1}."
    index_BC = parent_BC * V + token_BC
    for b in range(len(base_BW)):
        if np.isnan(score_BX[b]).any():
            if not np.isnan(best_BC[b]).all():
                return f"scores_BC[{b}] is {best_BC[b]}; right is NaN: a row of sentence {b} has no probabilities."
        elif what := _fault_message(best_BC[b], index_BC[b], score_BX[b], off_BX[b], logits_BWV[b]):
            return f"Sentence {b}: {what}"
    return None


def _fault_message(best_C, index_C, score_X, off_X, logits_WV) -> str | None:
    if len(set(index_C.tolist())) < len(index_C):
        return f"its columns are {index_C}; right are {len(index_C)} different ones below {len(score_X)}."
    for score, x in zip(best_C, index_C, strict=True):
        if not (score == score_X[x] or abs(score - score_X[x]) <= off_X[x]):
            return f"column {x} scores {score}; right is {score_X[x]:.9g}, give or take {off_X[x]:.1e}."
    order_C = np.lexsort((index_C, -best_C))
    if (order_C != np.arange(len(order_C))).any():
        return f"{best_C} in columns {index_C} do not fall, with the lower column first where they are equal."
    left_out_X = np.setdiff1d(np.arange(len(score_X)), index_C)
    better_X = left_out_X[score_X[left_out_X] - off_X[left_out_X] > best_C[-1]]
    if len(better_X):
        x = better_X[0]
        return f"column {x} is left out; its {score_X[x]:.9g} beats {best_C[-1]}, the last."
    for y in index_C:
        w, v = divmod(y, logits_WV.shape[1])
        before = w * logits_WV.shape[1] + np.flatnonzero(logits_WV[w, :v] == logits_WV[w, v])
        if len(before := np.setdiff1d(before, index_C)):
            return f"column {before[0]} is left out for column {y}, an equal logit of the same row behind it."
    return None


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of GPT-2 for 8 sentences of 4 beams, each of which needs 8 candidates."""
    rng = np.random.default_rng(seed)
    B, W, V, C = 8, 4, 50257, 8
    logits_RV = 3 * rng.standard_normal((B * W, V)).astype(np.float32)
    base_BW = -rng.random((B, W)).astype(np.float32)
    return (logits_RV, base_BW, C), f"{B} sentences of {W} beams, V = {V:,}, {C} candidates each"
