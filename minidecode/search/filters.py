"""The filter before sampling that is no op: it rules tokens out (-inf) and leaves the other scores as they are.

Probabilities are softmax(scores), so logits and log-probabilities are filtered alike. `least` tokens stay in any case.
"""

from __future__ import annotations

import numpy as np


def keep_min_p(scores_RV: np.ndarray, p: float, least: int = 1) -> np.ndarray:
    """Tokens at least p times as likely as the likeliest."""
    with np.errstate(invalid="ignore", over="ignore"):  # of scores that are none, which the end of the step tells
        probability_RV = _softmax(scores_RV)
    goes_RV = probability_RV < p * probability_RV.max(axis=1, keepdims=True)
    best_RX = np.argsort(-scores_RV, axis=1, kind="stable")[:, :least]
    np.put_along_axis(goes_RV, best_RX, False, axis=1)
    scores_RV[goes_RV] = -np.inf
    return scores_RV


def _softmax(scores_RV: np.ndarray) -> np.ndarray:
    """In float64: a sum over a large vocabulary decides which token is the last one kept. All -inf gives all 0."""
    largest_R1 = scores_RV.max(axis=1, keepdims=True)
    e_RV = np.exp(scores_RV.astype(np.float64) - np.where(largest_R1 > -np.inf, largest_R1, 0))
    return e_RV / np.maximum(e_RV.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
