"""The tokens of typical surprise: what sampling with typical_p leaves (Meister et al. 2022, equation 9).

With x = max - score, a token's surprise is -log p = x + log Z, and the entropy H = (mean of x) + log Z. So what is
compared is |x - (mean of x)|, and no logarithm is needed. The mean is of two sums of whole numbers, as in top_p.py,
which are the same in any order: a threshold may be searched in any way, on any device, and be the same.
"""

from __future__ import annotations

import math

import numpy as np

from . import scores_to_change

ONE = 2.0**44  # units of the likeliest token's weight, as in top_p.py
AT_FIRST, MORE = 1024, 8  # tokens that are sorted at first, and by how much more each time they are too few


def typical_filter_naive(scores_RV, mass, least=1, out=None):
    """Sorts the whole vocabulary by its distance from the mean."""
    scores_RV = scores_to_change(scores_RV, out)
    for scores_V in scores_RV:
        if np.isfinite(scores_V.max()):
            weight_V, distance_V, need = weights_and_distances(scores_V, mass)
            order_V = np.argsort(distance_V, kind="stable")
            last = order_V[int(np.argmax(np.cumsum(weight_V[order_V]) >= need))]
            stays_V = distance_V <= distance_V[last]
            stays_V[order_V[:least]] = True
            scores_V[~stays_V] = -np.inf
    return scores_RV


def typical_filter(scores_RV, mass, least=1, out=None):
    """Sorts the nearest 1,024 tokens, and eight times as many until they hold the mass: mostly, few do."""
    scores_RV = scores_to_change(scores_RV, out)
    for scores_V in scores_RV:
        if np.isfinite(scores_V.max()):
            weight_V, distance_V, need = weights_and_distances(scores_V, mass)
            farthest = _distance_that_holds(weight_V, distance_V, need)
            stays_V = distance_V <= farthest
            if least > 1:
                stays_V[np.argsort(distance_V, kind="stable")[:least]] = True
            scores_V[~stays_V] = -np.inf
    return scores_RV


def _distance_that_holds(weight_V, distance_V, need):
    """The least distance within which the weights sum to `need`."""
    many = AT_FIRST
    while True:
        near_X = np.argpartition(distance_V, many)[:many] if many < len(distance_V) else np.arange(len(distance_V))
        order_X = near_X[np.argsort(distance_V[near_X])]
        sum_X = np.cumsum(weight_V[order_X])
        if sum_X[-1] >= need:
            return distance_V[order_X[np.searchsorted(sum_X, need)]]
        many *= MORE


def weights_and_distances(scores_V, mass):
    """(weight_V, distance_V, need): weights in whole units, and how many of these the mass is."""
    x_V = np.float64(scores_V.max()) - scores_V
    weight_V = (np.exp(-x_V) * ONE).astype(np.int64)
    surprise_V = (weight_V * np.where(weight_V > 0, x_V, 0)).astype(np.int64)
    total = weight_V.sum()
    need = min(max(1, math.ceil(mass * float(total))), total)
    return weight_V, np.abs(x_V - surprise_V.sum() / total), need
