"""Softmax and log-probabilities of all tokens, compiled for the CPU: none of HARS's exponentials is written."""

from __future__ import annotations

import numpy as np

from ..ops import FINE, NOT_A_NUMBER
from ..reference.softmax import results
from .common.jit import njit
from .common.vector_exp import exp
from .hars import largest_of, sum_of_exponentials

LANES = 16  # maxima that are taken side by side


@njit(cache=True, nogil=True)
def softmax_in_place(scores_M):
    """NaN if a score is NaN or plus infinity, or all are minus infinity."""
    _divide(scores_M, exponentials(scores_M, largest(scores_M)))


@njit(cache=True, nogil=True)
def largest(scores_M):
    """As `largest_of`, for rows so short that many lanes would take longer than they save."""
    lanes_X, first = np.full(LANES, -np.inf, scores_M.dtype), len(scores_M) % LANES
    for m in range(first):
        lanes_X[m] = scores_M[m] if scores_M[m] > lanes_X[m] else lanes_X[m]
    for m in range(first, len(scores_M), LANES):
        for k in range(LANES):
            lanes_X[k] = scores_M[m + k] if scores_M[m + k] > lanes_X[k] else lanes_X[k]
    return lanes_X.max()


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})  # a sum in any order, so that it runs on vectors
def exponentials(scores_M, most):
    """exp(score - largest) in place of each; and their sum."""
    total = scores_M.dtype.type(0)
    for m in range(len(scores_M)):
        scores_M[m] = np.exp(scores_M[m] - most) if scores_M.itemsize == 8 else exp(scores_M[m] - most)
        total += scores_M[m]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _divide(scores_M, total):
    for m in range(len(scores_M)):
        scores_M[m] /= total


def log_softmax(logits_RV, out=None):
    """Row by row, so that a row stays in the cache: its maximum, its sum of exponentials, its scores."""
    out = results(logits_RV, out)
    _log_softmax(logits_RV, *out)
    return out


@njit(cache=True)
def _log_softmax(logits_RV, scores_RV, trouble_R):
    for r in range(len(logits_RV)):
        largest = largest_of(logits_RV[r])
        log_sum = logits_RV.dtype.type(np.log(sum_of_exponentials(logits_RV[r], largest)))
        trouble_R[r] = NOT_A_NUMBER if np.isnan(log_sum) else FINE
        _take_off(logits_RV[r], largest, log_sum, scores_RV[r])


@njit(cache=True)
def _take_off(logits_V, largest, log_sum, scores_V):
    """A function of its own, of one loop: it runs on vectors."""
    for v in range(len(logits_V)):
        scores_V[v] = logits_V[v] - largest - log_sum
