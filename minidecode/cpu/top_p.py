"""The fewest tokens that hold a share p of the probability, compiled for the CPU."""

from __future__ import annotations

import math

import numpy as np

from ..reference import scores_to_change
from ..reference.top_p import ONE
from .common.jit import njit

BUCKETS, PER_UNIT = 1024, 32.0  # tokens are sorted into them by how far their scores lie below the largest
LAST = BUCKETS - 1  # nearly 32 below the largest, and all that is further: in whole units of 2^-44, e^-31.9 is 0


def top_p_filter(scores_RV, p, least=1, out=None):
    """Tokens go by buckets of scores, the lowest first. The bucket that goes in part is parted as by quickselect."""
    scores_RV = scores_to_change(scores_RV, out)
    _top_p_filter(scores_RV, 1 - p, least)
    return scores_RV


@njit(cache=True)
def _top_p_filter(scores_RV, share, least):
    V = scores_RV.shape[1]
    weight_V, bucket_V, token_X = np.empty(V, np.int64), np.empty(V, np.int16), np.empty(V, np.int64)
    weight_B, count_B = np.empty(BUCKETS, np.int64), np.empty(BUCKETS, np.int64)
    for scores_V in scores_RV:
        largest = scores_V.max()
        if largest == -np.inf:
            continue
        weight_B[:], count_B[:] = 0, 0
        for v in range(V):
            below = np.float64(largest) - np.float64(scores_V[v])
            b = np.int64(below * PER_UNIT) if below * PER_UNIT < LAST else LAST  # of NaN, too
            weight_V[v] = np.int64(math.exp(-below) * ONE) if b < LAST else 0
            bucket_V[v] = b
            weight_B[b] += weight_V[v]
            count_B[b] += 1

        # Whole buckets go while they may: `weight` and `tokens` are what may go besides.
        weight, tokens, edge = np.int64(share * weight_B.sum()), max(V - least, 0), LAST
        while edge > 0 and weight_B[edge] <= weight and count_B[edge] <= tokens:
            weight, tokens, edge = weight - weight_B[edge], tokens - count_B[edge], edge - 1
        x = 0
        for v in range(V):
            if bucket_V[v] > edge:
                scores_V[v] = -np.inf
            elif bucket_V[v] == edge:
                token_X[x] = v
                x += 1
        gone = _order_until_one_stays(scores_V, weight_V, token_X[:x], weight, tokens)
        for v in token_X[:gone]:
            scores_V[v] = -np.inf


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
