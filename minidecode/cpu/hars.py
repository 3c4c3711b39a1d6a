"""A step's candidates straight from the logits (LightSeq, section 2.2), compiled for the CPU."""

from __future__ import annotations

import numpy as np

from .candidates import PART, how_many_beat, insert
from .common.jit import njit
from .common.vector_exp import exp

ADDED = 512  # exponentials that are added up in float32


def hars_candidates(logits_RV, base_BW, C, out=None):
    """Row by row, so that a row stays in the cache: its maximum, its sum of exponentials, and what beats the worst of
    the best C so far.
    """
    shape = len(base_BW), C
    best_BC, index_BC = out or (np.empty(shape, logits_RV.dtype), np.empty(shape, np.int64))
    _hars_candidates(logits_RV, base_BW, best_BC, index_BC)
    return best_BC, index_BC


@njit(cache=True)
def _hars_candidates(logits_RV, base_BW, best_BC, index_BC):
    (B, W), V, C = base_BW.shape, logits_RV.shape[1], best_BC.shape[1]
    score_X = np.empty(PART, logits_RV.dtype)
    for b in range(B):
        best_C, index_C = best_BC[b], index_BC[b]
        found, has_nan = 0, False
        for w in range(W):
            logits_V = logits_RV[b * W + w]
            largest = largest_of(logits_V)
            log_sum = logits_RV.dtype.type(np.log(sum_of_exponentials(logits_V, largest)))
            has_nan |= np.isnan(log_sum)
            for first in range(0, V, PART):
                part_X = score_X[: min(PART, V - first)]
                scores_of(logits_V[first : first + PART], largest, log_sum, base_BW[b, w], part_X)
                if found == C and not how_many_beat(part_X, best_C[-1]):
                    continue
                for k in range(len(part_X)):
                    if found < C:
                        found += 1
                        insert(best_C[:found], index_C[:found], part_X[k], w * V + first + k)
                    elif part_X[k] > best_C[-1]:
                        insert(best_C, index_C, part_X[k], w * V + first + k)
        if has_nan:
            best_C[:], index_C[:] = np.nan, np.arange(C)


@njit(cache=True)
def largest_of(logits_V):
    """NaN is passed over. In lanes, so that it runs on vectors: a maximum alone may not be taken in another order."""
    lanes_X = np.full(PART, -np.inf, logits_V.dtype)
    for first in range(0, len(logits_V), PART):
        raise_lanes(lanes_X, logits_V[first : first + PART])
    return lanes_X.max()


@njit(cache=True)
def raise_lanes(lanes_X, part_X):
    for k in range(len(part_X)):
        lanes_X[k] = part_X[k] if part_X[k] > lanes_X[k] else lanes_X[k]


@njit(cache=True)
def scores_of(part_X, largest, log_sum, base, score_X):
    for k in range(len(part_X)):
        score_X[k] = part_X[k] - largest - log_sum + base


@njit(cache=True)
def sum_of_exponentials(logits_V, largest):
    """The sum of exp(logit - largest); NaN if a logit is NaN or plus infinity, or all are minus infinity.

    Parts are added up in float64: of many small numbers added to one large sum in float32, each loses its last digits,
    and all of them in the same direction if they are nearly equal.
    """
    if logits_V.itemsize == 8:
        return np.exp(logits_V - largest).sum()
    total = 0.0
    for first in range(0, len(logits_V), ADDED):
        total += sum_of_part(logits_V[first : first + ADDED], largest)
    return np.float32(total)


@njit(cache=True, fastmath={"reassoc", "contract"})  # a sum in any order, so that it runs on vectors
def sum_of_part(part_X, largest):
    total = np.float32(0)
    for k in range(len(part_X)):
        total += exp(part_X[k] - largest)
    return total
