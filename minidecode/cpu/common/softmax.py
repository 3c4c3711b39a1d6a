"""Softmax of one row of scores, in place: a piece of the attention ops."""

from __future__ import annotations

import numpy as np

from .jit import REORDER, njit
from .vector_exp import exp

LANES = 16  # maxima that are taken side by side


@njit(cache=True, nogil=True)
def softmax_in_place(scores_M):
    """NaN if a score is NaN or plus infinity, or all are minus infinity."""
    _divide_by_sum(scores_M, exponentiate_scores(scores_M, largest_score(scores_M)))


@njit(cache=True, nogil=True)
def largest_score(scores_M):
    """The largest score of a short row, in 16 lanes: more of them would take longer than they save."""
    lanes_X, first = np.full(LANES, -np.inf, scores_M.dtype), len(scores_M) % LANES
    for m in range(first):
        lanes_X[m] = scores_M[m] if scores_M[m] > lanes_X[m] else lanes_X[m]
    for m in range(first, len(scores_M), LANES):
        for k in range(LANES):
            lanes_X[k] = scores_M[m + k] if scores_M[m + k] > lanes_X[k] else lanes_X[k]
    return lanes_X.max()


@njit(cache=True, nogil=True, fastmath=REORDER)
def exponentiate_scores(scores_M, most):
    """exp(score - largest) in place of each; and their sum."""
    total = scores_M.dtype.type(0)
    for m in range(len(scores_M)):
        scores_M[m] = np.exp(scores_M[m] - most) if scores_M.itemsize == 8 else exp(scores_M[m] - most)
        total += scores_M[m]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _divide_by_sum(scores_M, running_sum):
    for m in range(len(scores_M)):
        scores_M[m] /= running_sum
