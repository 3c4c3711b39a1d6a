"""The likeliest token: inputs that find mistakes, and what is right, with a bound on the log-probability."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ...ops import FINE, NONE_LEFT, NOT_A_NUMBER
from ..sizes import SEVERAL_WIDE, WIDE, make_large_scores
from .hars import RISING_RV, compute_logprobs_and_error_bounds, make_logits_of_several_widths

INF, NAN = np.inf, np.nan


def make_arguments(scores: list, logits: list | None) -> tuple:
    """(scores_RV, logits_RV)"""
    return np.array(scores, np.float32), None if logits is None else np.array(logits, np.float32)


@st.composite
def draw_inputs(draw):
    """Few different logits, some far apart; scores that are the logits, or made of them, or log-probabilities."""
    R, V = draw(st.integers(1, 3)), draw(st.integers(1, 20))
    logit = st.sampled_from([0.0, 1.0, -2.0, 3.5, -4.25, 120.0, -INF])
    if draw(st.integers(0, 5)) == 0:
        logit |= st.sampled_from([NAN, INF])
    rows = st.lists(st.lists(logit, min_size=V, max_size=V), min_size=R, max_size=R)
    scores = draw(rows)
    kind = draw(st.integers(0, 2))
    if kind == 0:
        return make_arguments(np.minimum(scores, 120), None)
    return make_arguments(scores, scores if kind == 1 else draw(rows))


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)
    rows = [[1.0, 3.0, 2.0], [0.5, -1.0, 0.0]]
    cases = [
        make_arguments(rows, rows),
        make_arguments(
            [[2.0, 7.0, 7.0, 7.0], [1.0, 1.0, 1.0, 1.0]], [[2.0, 7.0, 7.0, 7.0], [1.0, 1.0, 1.0, 1.0]]
        ),  # ties
        make_arguments([[1.0, -INF, 2.0], [0.5, -INF, -INF]], rows),  # the likeliest token is banned
        make_arguments([[-INF] * 3, [-INF, -INF, 0.0]], rows),  # none is left; one is certain
        make_arguments(
            [[-INF, 0.0, -INF], [3.0, 2.0, 1.0]], [[1.0, -INF, 2.0], [3.0, 2.0, 1.0]]
        ),  # certain, impossible
        make_arguments(
            [[NAN, 1.0, 2.0], [0.0, 1.0, NAN], rows[0]], [rows[1], rows[1], rows[0]]
        ),  # scores are no numbers
        make_arguments(rows * 2, [[NAN, 1.0, 2.0], [-INF] * 3, [1.0, INF, 2.0], rows[1]]),  # no probabilities
        make_arguments([[-0.5, -1.0, -INF], [-INF] * 3, [-2.0, -0.25, -0.25]], None),  # log-probabilities as they are
        make_arguments(
            [[200.0, 199.0, 0.0], [-500.0, -501.0, -500.5]], [[200.0, 199.0, 0.0], [-500.0, -501.0, -500.5]]
        ),
    ]
    for logits_RV in make_logits_of_several_widths(rng):
        cases.append(make_arguments(logits_RV, logits_RV))
        cases.append(make_arguments(np.where(rng.random(logits_RV.shape) < 0.5, logits_RV, -INF), logits_RV))
    return [*cases, make_arguments(RISING_RV, RISING_RV)]


def large_cases() -> list[tuple]:
    """Widths at the edges of blocks, many rows, and more tokens than sixteen bits count: the last is the best."""
    rng = np.random.default_rng(1)
    cases = [make_arguments(logits_RV, logits_RV) for logits_RV in make_large_scores(rng)]
    R, V = SEVERAL_WIDE
    logits_RV = rng.standard_normal((R, V))
    logits_RV[1, -5], logits_RV[2, -9] = NAN, INF
    # Of equals the first.
    equal_RV = np.where(np.arange(WIDE) % 1000, -1.0, 9.0)[None]
    return [*cases, make_arguments(logits_RV, logits_RV), make_arguments(equal_RV, equal_RV)]


def oracle(scores_RV, logits_RV):
    """The right answer in float64, row by row."""
    token_R, logprob_R = np.zeros(len(scores_RV), np.int64), np.full(len(scores_RV), NAN)
    trouble_R = np.full(len(scores_RV), NOT_A_NUMBER)
    logprobs_RV = scores_RV.astype(np.float64) if logits_RV is None else compute_logprobs_and_error_bounds(logits_RV)[0]
    for r, scores_V in enumerate(scores_RV.tolist()):
        token = 0 if any(score != score for score in scores_V) else scores_V.index(max(scores_V))
        if not np.isnan(scores_V).any() and not np.isnan(logprobs_RV[r, token]):
            token_R[r], logprob_R[r] = token, logprobs_RV[r, token]
            trouble_R[r] = FINE if max(scores_V) > -INF else NONE_LEFT
    return token_R, logprob_R, trouble_R


def error_bound(scores_RV, logits_RV):
    """The bound of HARS for the log-probability, which is rounded in the same places; tokens are exact."""
    token_R, _, trouble_R = oracle(scores_RV, logits_RV)
    none_R = np.zeros(len(token_R))
    if logits_RV is None:
        return none_R, none_R, none_R
    off_RV = compute_logprobs_and_error_bounds(logits_RV)[1]
    return none_R, np.where(trouble_R == NOT_A_NUMBER, 0, off_RV[np.arange(len(token_R)), token_R]), none_R


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of GPT-2's greedy search for 8 texts, in which nothing touches the scores; one text has met NaN."""
    logits_RV = 3 * np.random.default_rng(seed).standard_normal((8, 50257)).astype(np.float32)
    logits_RV[seed % 8, 5] = NAN
    return (logits_RV, logits_RV), "8 rows, V = 50,257"
