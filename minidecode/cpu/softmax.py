"""Log-probabilities of all tokens, compiled for the CPU: none of HARS's exponentials is written."""

from __future__ import annotations

import numpy as np

from ..ops import FINE, NOT_A_NUMBER
from ..reference.softmax import result_arrays
from .common.jit import njit
from .common.log_sum import largest_of, sum_of_exponentials


def log_softmax(logits_RV, out=None):
    """Row by row, so that a row stays in the cache: its maximum, its sum of exponentials, its scores."""
    out = result_arrays(logits_RV, out)
    _log_softmax(logits_RV, *out)
    return out


@njit(cache=True)
def _log_softmax(logits_RV, scores_RV, trouble_R):
    for r in range(len(logits_RV)):
        largest = largest_of(logits_RV[r])
        log_sum = logits_RV.dtype.type(np.log(sum_of_exponentials(logits_RV[r], largest)))
        trouble_R[r] = NOT_A_NUMBER if np.isnan(log_sum) else FINE
        _subtract_log_sum(logits_RV[r], largest, log_sum, scores_RV[r])


@njit(cache=True)
def _subtract_log_sum(logits_V, largest, log_sum, scores_V):
    """A function of its own, of one loop: it runs on vectors."""
    for v in range(len(logits_V)):
        scores_V[v] = logits_V[v] - largest - log_sum
