"""Log-probabilities of all tokens: inputs that find mistakes, and what is right, with a bound."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ...ops import FINE, NOT_A_NUMBER
from ..sizes import make_large_scores
from .hars import RISING_RV, compute_logprobs_and_error_bounds, make_logits_of_several_widths

INF, NAN = np.inf, np.nan


def make_arguments(rows: list) -> tuple:
    """(logits_RV,)"""
    return (np.array(rows, np.float32),)


@st.composite
def draw_inputs(draw):
    """Few different logits, some so large that exp overflows; now and then a row without probabilities."""
    R, V = draw(st.integers(1, 3)), draw(st.integers(1, 40))
    logit = st.sampled_from([0.0, 1.0, -2.0, 3.5, -4.25, 120.0, -500.0, -INF])
    if draw(st.integers(0, 5)) == 0:
        logit |= st.sampled_from([NAN, INF])
    return make_arguments(draw(st.lists(st.lists(logit, min_size=V, max_size=V), min_size=R, max_size=R)))


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)
    rows = [[1.0, 3.0, 2.0], [0.5, -1.0, 0.0]]
    cases = [
        make_arguments(rows),
        make_arguments([[200.0, 199.0, 0.0], [-500.0, -501.0, -500.5]]),  # exp over- and underflows
        make_arguments([[2.0, -INF, 1.0], [-INF, -INF, 4.0], rows[1]]),  # some that are impossible; one that is certain
        make_arguments([[NAN, 1.0, 2.0], [0.0, 1.0, NAN], rows[0]]),  # a number that is none, first or last
        make_arguments([[-INF] * 3, [1.0, INF, 2.0], rows[1]]),  # no probabilities
        make_arguments([[7.0, 7.0, 7.0, 7.0]]),  # all equal
    ]
    for logits_RV in make_logits_of_several_widths(rng):
        cases.append(make_arguments(logits_RV))
    return [*cases, make_arguments(RISING_RV)]


def large_cases() -> list[tuple]:
    """Many rows, wide ones, and widths at the edges of blocks: the last token of the first row is the likeliest."""
    return [make_arguments(logits_RV) for logits_RV in make_large_scores(np.random.default_rng(1))]


def oracle(logits_RV):
    """The right answer in float64, row by row."""
    scores_RV, _ = compute_logprobs_and_error_bounds(logits_RV)
    is_nan_R = np.isnan(scores_RV).any(axis=1)
    scores_RV[is_nan_R] = NAN
    return scores_RV, np.where(is_nan_R, NOT_A_NUMBER, FINE)


def error_bound(logits_RV):
    """The bound of HARS, which rounds in the same places; the flags of trouble are exact."""
    return compute_logprobs_and_error_bounds(logits_RV)[1], np.zeros(len(logits_RV))


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of GPT-2 for 8 sentences of 4 beams, of which one has met NaN."""
    logits_RV = 3 * np.random.default_rng(seed).standard_normal((32, 50257)).astype(np.float32)
    logits_RV[seed % 32, 5] = NAN
    return (logits_RV,), "32 rows, V = 50,257"
