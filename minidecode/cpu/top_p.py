"""The fewest tokens that hold a share p of the probability, compiled for the CPU."""

from __future__ import annotations

import math

import numpy as np

from ..reference import in_place
from ..reference.top_p import ONE
from .common.jit import njit


def top_p_filter(scores_RV, p, least=1, out=None):
    """Parts tokens into those before and behind one of them, again and again, as quickselect looks for a median."""
    scores_RV = in_place(scores_RV, out)
    _top_p_filter(scores_RV, 1 - p, least)
    return scores_RV


@njit(cache=True)
def _top_p_filter(scores_RV, run_tasks, least):
    V = scores_RV.shape[1]
    weight_V, token_X = np.empty(V, np.int64), np.empty(V, np.int64)
    for scores_V in scores_RV:
        largest = scores_V.max()
        if largest == -np.inf:
            continue
        total = 0
        for v in range(V):
            weight_V[v] = np.int64(math.exp(np.float64(scores_V[v]) - np.float64(largest)) * ONE)
            total += weight_V[v]
            token_X[v] = v
        gone = _order_until_one_stays(scores_V, weight_V, token_X, np.int64(run_tasks * total), max(V - least, 0))
        for x in range(gone):
            scores_V[token_X[x]] = -np.inf


@njit(cache=True)
def _order_until_one_stays(scores_V, weight_V, token_X, weight, tokens):
    """Puts what goes in front, at most `weight` and `tokens` of it, and returns how many that are."""
    begin, end = 0, len(token_X)  # what lies before goes, what lies behind stays
    while end - begin > 1:
        middle = (begin + end) // 2
        pivot = token_X[middle]
        token_X[middle], token_X[end - 1] = token_X[end - 1], pivot
        place, weight_before = begin, 0
        for x in range(begin, end - 1):
            v = token_X[x]
            if scores_V[v] < scores_V[pivot] or (scores_V[v] == scores_V[pivot] and v < pivot):
                token_X[place], token_X[x] = v, token_X[place]
                weight_before += weight_V[v]
                place += 1
        token_X[place], token_X[end - 1] = pivot, token_X[place]
        if weight_before + weight_V[pivot] <= weight and place + 1 <= tokens:
            begin, weight = place + 1, weight - weight_before - weight_V[pivot]
        elif weight_before <= weight and place <= tokens:
            return place  # the pivot is the first that stays
        else:
            end = place
    return begin
