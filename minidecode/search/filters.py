"""The filters before sampling, exact: they rule tokens out (-inf) and leave the other scores as they are.

Probabilities are softmax(scores), so logits and log-probabilities are filtered alike. `least` tokens stay in any case.
"""

from __future__ import annotations

import numpy as np


def keep_top_k(scores_RV: np.ndarray, k: int) -> np.ndarray:
    """The k largest scores of each row, and what ties with the k-th."""
    V = scores_RV.shape[1]
    if k < V:
        kth_R1 = np.partition(scores_RV, V - k, axis=1)[:, V - k, None]
        scores_RV[scores_RV < kth_R1] = -np.inf
    return scores_RV


def keep_top_p(scores_RV: np.ndarray, p: float, least: int = 1) -> np.ndarray:
    """The fewest tokens, likeliest first, whose probabilities sum to at least p (Holtzman 2020).

    A token goes if it and all less likely ones together have a probability of at most 1 - p.
    """
    order_RV = np.argsort(scores_RV, axis=1, kind="stable")
    cumulative_RV = np.cumsum(_softmax(np.take_along_axis(scores_RV, order_RV, axis=1)), axis=1)
    goes_RV = cumulative_RV <= 1 - p
    goes_RV[:, -least:] = False
    rows, columns = np.nonzero(goes_RV)
    scores_RV[rows, order_RV[rows, columns]] = -np.inf
    return scores_RV


def keep_min_p(scores_RV: np.ndarray, p: float, least: int = 1) -> np.ndarray:
    """Tokens at least p times as likely as the likeliest."""
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
