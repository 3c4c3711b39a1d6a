"""Filters before sampling that are no ops: each rules tokens out (-inf) and leaves the other scores as they are.

Scores may be logits or log-probabilities. `least` tokens stay in any case: the likeliest ones. They are array
expressions that look at no number, so that they run where the scores lie, in a captured step too: on a device over all
rows at once, on the host row by row, which takes less room.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

AT_ONCE = 4096  # scores that are compared together on the host
TOP_H_TOKENS = 100  # the likeliest tokens, of which top-H chooses


def min_p_filter(ops: Any, scores_RV: np.ndarray, p: float, least: int = 1) -> np.ndarray:
    """Tokens at least p times as likely as the likeliest; `least` of them stay in any case.

    softmax(s)_v < p max softmax(s) just where s_v < max s + log p: no probability need be known.
    """
    below = math.log(p) if p > 0 else -math.inf
    best_RC, index_RC = ops.top_candidates(scores_RV, min(least, scores_RV.shape[1]))
    threshold_R1 = (best_RC[:, :1].astype(np.float64) + below).astype(scores_RV.dtype)
    for rows in _row_slices(scores_RV):
        _rule_out_below(scores_RV[rows], threshold_R1[rows])
    np.put_along_axis(scores_RV, index_RC, best_RC, axis=1)
    return scores_RV


def _rule_out_below(scores_RV: np.ndarray, threshold_R1: np.ndarray) -> None:
    """On the host some columns at a time: what NumPy notes of them is as many bytes."""
    if not isinstance(scores_RV, np.ndarray):
        scores_RV[...] = np.where(scores_RV < threshold_R1, -np.inf, scores_RV)
        return
    for first in range(0, scores_RV.shape[1], AT_ONCE):
        part_RX = scores_RV[:, first : first + AT_ONCE]
        part_RX[part_RX < threshold_R1] = -np.inf


def epsilon_filter(ops: Any, scores_RV: np.ndarray, epsilon: float, least: int = 1) -> np.ndarray:
    """Tokens of at least probability epsilon (Hewitt et al. 2022, section 4)."""
    return _cut_off(ops, scores_RV, lambda logprobs_RV: math.log(epsilon), least)


def eta_filter(ops: Any, scores_RV: np.ndarray, epsilon: float, least: int = 1) -> np.ndarray:
    """Tokens of at least probability eta = min(epsilon, sqrt(epsilon) exp(-H)), H the row's entropy.

    Where the model is unsure, H is large, and less likely tokens may come too (Hewitt et al. 2022, equation 5).
    """

    def log_eta_of(logprobs_RV):
        entropy_R1 = _entropy_terms(logprobs_RV).sum(axis=1, keepdims=True)
        return np.minimum(math.log(epsilon), math.log(epsilon) / 2 - entropy_R1)

    return _cut_off(ops, scores_RV, log_eta_of, least)


def _cut_off(ops, scores_RV, threshold_of, least):
    """Rules out what is below the threshold of log-probabilities, but for what ties with the `least` likeliest."""
    best_RC, _ = ops.top_candidates(scores_RV, min(least, scores_RV.shape[1]))
    for rows in _row_slices(scores_RV):
        part_RV, logprobs_RV = scores_RV[rows], _log_softmax(scores_RV[rows], best_RC[rows, :1])
        goes_RV = (logprobs_RV < threshold_of(logprobs_RV)) & (part_RV < best_RC[rows, -1:])
        scores_RV[rows] = np.where(goes_RV, -np.inf, part_RV)
    return scores_RV


def top_h_filter(ops: Any, scores_RV: np.ndarray, h: float) -> np.ndarray:
    """The likeliest tokens as long as their share of the entropy, the sum of -p log p, is at most h (Top-H, 2025).

    p are the probabilities among the 100 likeliest, which alone can stay; the likeliest one does in any case.
    """
    best_RC, index_RC = ops.top_candidates(scores_RV, min(TOP_H_TOKENS, scores_RV.shape[1]))
    logprobs_RC = _log_softmax(best_RC, best_RC[:, :1])
    entropy_RC = np.cumsum(_entropy_terms(logprobs_RC), axis=1)
    goes_RC = (entropy_RC > h * entropy_RC[:, -1:]) | (logprobs_RC == -np.inf)
    is_first_C = np.arange(best_RC.shape[1], like=best_RC) == 0
    scores_RV[...] = np.full_like(scores_RV, -np.inf)
    np.put_along_axis(scores_RV, index_RC, np.where(goes_RC & ~is_first_C, -np.inf, best_RC), axis=1)
    return scores_RV


def _row_slices(scores_RV: np.ndarray) -> Iterator[slice]:
    """Which rows are looked at together."""
    rows = len(scores_RV)
    step = 1 if isinstance(scores_RV, np.ndarray) else rows
    return (slice(first, first + step) for first in range(0, rows, step))


def _log_softmax(scores_RV: np.ndarray, largest_R1: np.ndarray) -> np.ndarray:
    """In double precision: thresholds decide which tokens stay. A row in which no token is left is NaN."""
    with np.errstate(invalid="ignore"):
        shifted_RV = scores_RV.astype(np.float64) - largest_R1.astype(np.float64)
    return shifted_RV - np.log(np.exp(shifted_RV).sum(axis=1, keepdims=True))


def _entropy_terms(logprobs_RV: np.ndarray) -> np.ndarray:
    """-p log p of each token; 0 where p is 0."""
    probabilities_RV = np.exp(logprobs_RV)
    return -probabilities_RV * np.where(probabilities_RV > 0, logprobs_RV, 0.0)
