"""The k likeliest tokens, compiled for the CPU."""

from __future__ import annotations

import numpy as np

from ..reference import scores_to_change
from ..reference import top_k as reference
from .candidates import top_candidates
from .common.code_paths import COMPILED, NUMPY, count_call
from .common.jit import njit

MOST = 256  # that a list keeps in order faster than a partial sort finds the last of them


def top_k_filter(scores_RV, k, out=None):
    """One pass for the k best so far, whose worst is the threshold, and one that rules out."""
    if not k <= min(MOST, scores_RV.shape[1] - 1):
        count_call(NUMPY)
        return reference.top_k_filter(scores_RV, k, out)
    scores_RV = scores_to_change(scores_RV, out)
    count_call(COMPILED)
    best_RK, _ = top_candidates(scores_RV, k)
    _rule_out_below(scores_RV, best_RK)
    return scores_RV


@njit(cache=True)
def _rule_out_below(scores_RV, best_RK):
    for r in range(len(scores_RV)):
        least = best_RK[r, -1]
        for v in range(scores_RV.shape[1]):
            if scores_RV[r, v] < least:
                scores_RV[r, v] = -np.inf
