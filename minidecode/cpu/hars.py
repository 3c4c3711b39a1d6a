"""A step's candidates straight from the logits (LightSeq, section 2.2), compiled for the CPU."""

from __future__ import annotations

import numpy as np

from ..reference.hars import result_arrays
from .common.best_columns import PART, how_many_beat, insert
from .common.jit import njit
from .common.log_sum import largest_of, sum_of_exponentials


def hars_candidates(logits_RV, base_BW, C, out=None):
    """Row by row, so that a row stays in the cache: its maximum, its sum of exponentials, and what beats the worst of
    the best C so far.
    """
    out = result_arrays(logits_RV, len(base_BW), C, out)
    _hars_candidates(logits_RV, base_BW, *out)
    return out


@njit(cache=True)
def _hars_candidates(logits_RV, base_BW, best_BC, parent_BC, token_BC):
    (B, W), V, C = base_BW.shape, logits_RV.shape[1], best_BC.shape[1]
    score_X = np.empty(PART, logits_RV.dtype)
    for b in range(B):
        best_C, index_C = best_BC[b], token_BC[b]  # columns w*V + v, until all are there
        count, has_nan = 0, False
        for w in range(W):
            logits_V = logits_RV[b * W + w]
            largest = largest_of(logits_V)
            log_sum = logits_RV.dtype.type(np.log(sum_of_exponentials(logits_V, largest)))
            has_nan |= np.isnan(log_sum)
            for first in range(0, V, PART):
                part_X = score_X[: min(PART, V - first)]
                scores_of(logits_V[first : first + PART], largest, log_sum, base_BW[b, w], part_X)
                if count == C and not how_many_beat(part_X, best_C[-1]):
                    continue
                for k in range(len(part_X)):
                    if count < C:
                        count += 1
                        insert(best_C[:count], index_C[:count], part_X[k], w * V + first + k)
                    elif part_X[k] > best_C[-1]:
                        insert(best_C, index_C, part_X[k], w * V + first + k)
        if has_nan:
            best_C[:], index_C[:] = np.nan, np.arange(C)
        parent_BC[b] = index_C // V
        index_C -= parent_BC[b] * V


@njit(cache=True)
def scores_of(part_X, largest, log_sum, base, score_X):
    for k in range(len(part_X)):
        score_X[k] = part_X[k] - largest - log_sum + base
