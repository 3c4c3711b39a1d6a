"""Filters before sampling that are no ops: each rules tokens out (-inf) and leaves the other scores as they are.

Scores may be logits or log-probabilities. `least` tokens stay in any case: the likeliest ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

AT_ONCE = 4096  # scores that are compared together: what NumPy notes of them is as many bytes
TOP_H_TOKENS = 100  # the likeliest tokens, of which top-H chooses


def min_p_filter(scores_RV: np.ndarray, p: float, least: int = 1) -> np.ndarray:
    """Tokens at least p times as likely as the likeliest; `least` of them stay in any case.

    softmax(s)_v < p max softmax(s) just where s_v < max s + log p: no probability need be known.
    """
    below = math.log(p) if p > 0 else -math.inf
    for scores_V in scores_RV:
        stays = np.argsort(-scores_V, kind="stable")[:least] if least > 1 else slice(0)  # the likeliest stays anyway
        kept_X = scores_V[stays].copy()
        threshold = float(scores_V.max()) + below
        for first in range(0, len(scores_V), AT_ONCE):
            part_V = scores_V[first : first + AT_ONCE]
            part_V[part_V < threshold] = -np.inf
        scores_V[stays] = kept_X
    return scores_RV


def epsilon_filter(scores_RV: np.ndarray, epsilon: float, least: int = 1) -> np.ndarray:
    """Tokens of at least probability epsilon (Hewitt et al. 2022, section 4)."""
    for scores_V in _possible(scores_RV):
        _leave(scores_V, _log_softmax(scores_V) >= math.log(epsilon), least)
    return scores_RV


def eta_filter(scores_RV: np.ndarray, epsilon: float, least: int = 1) -> np.ndarray:
    """Tokens of at least probability eta = min(epsilon, sqrt(epsilon) exp(-H)), H the row's entropy.

    Where the model is unsure, H is large, and less likely tokens may come too (Hewitt et al. 2022, equation 5).
    """
    for scores_V in _possible(scores_RV):
        logprobs_V = _log_softmax(scores_V)
        log_eta = min(math.log(epsilon), math.log(epsilon) / 2 - _entropy(logprobs_V))
        _leave(scores_V, logprobs_V >= log_eta, least)
    return scores_RV


def typical_filter(scores_RV: np.ndarray, mass: float, least: int = 1) -> np.ndarray:
    """The fewest tokens of at least this mass whose surprise, -log p, is nearest to its mean, the entropy H.

    So a token that is much likelier than usual may go as well (Meister et al. 2022, equation 9). What ties with the
    last one stays, and here the `least` are those nearest to H.
    """
    for scores_V in _possible(scores_RV):
        logprobs_V = _log_softmax(scores_V)
        distance_V = np.abs(-logprobs_V - _entropy(logprobs_V))
        order_V = np.argsort(distance_V, kind="stable")
        before_V = np.cumsum(np.exp(logprobs_V[order_V])) < mass  # with these alone the mass is not reached
        last = order_V[min(int(before_V.sum()), len(order_V) - 1)]
        stays_V = distance_V <= distance_V[last]
        stays_V[order_V[:least]] = True
        scores_V[~stays_V] = -np.inf
    return scores_RV


def top_h_filter(scores_RV: np.ndarray, h: float) -> np.ndarray:
    """The likeliest tokens as long as their share of the entropy, the sum of -p log p, is at most h (Top-H, 2025).

    p are the probabilities among the 100 likeliest, which alone can stay; the likeliest one does in any case.
    """
    for scores_V in _possible(scores_RV):
        order_X = np.argsort(-scores_V, kind="stable")[:TOP_H_TOKENS]
        logprobs_X = _log_softmax(scores_V[order_X])
        entropy_X = np.cumsum(_surprise(logprobs_X))
        stays_X = (entropy_X <= h * entropy_X[-1]) & (logprobs_X > -np.inf)
        stays_X[0] = True
        stays_V = np.zeros(len(scores_V), bool)
        stays_V[order_X[stays_X]] = True
        scores_V[~stays_V] = -np.inf
    return scores_RV


def _possible(scores_RV: np.ndarray) -> Iterator[np.ndarray]:
    """The rows in which a token is left."""
    return (scores_V for scores_V in scores_RV if scores_V.max() > -np.inf)


def _log_softmax(scores_V: np.ndarray) -> np.ndarray:
    """In double precision: thresholds decide which tokens stay."""
    shifted_V = scores_V.astype(np.float64) - float(scores_V.max())
    return shifted_V - math.log(np.exp(shifted_V).sum())


def _surprise(logprobs_V: np.ndarray) -> np.ndarray:
    """-p log p of each token; 0 where p is 0."""
    probabilities_V = np.exp(logprobs_V)
    return -probabilities_V * np.where(probabilities_V > 0, logprobs_V, 0.0)


def _entropy(logprobs_V: np.ndarray) -> float:
    return float(_surprise(logprobs_V).sum())


def _leave(scores_V: np.ndarray, stays_V: np.ndarray, least: int) -> None:
    """Rules out all tokens but these and the `least` likeliest ones, with what ties with the last of them."""
    kth = np.partition(scores_V, -least)[-least] if least <= len(scores_V) else -np.inf
    scores_V[~(stays_V | (scores_V >= kth))] = -np.inf
