"""The fewest tokens that hold a share p of the probability: what sampling with top_p leaves (Holtzman et al. 2020).

Nothing here depends on the order in which probabilities are summed: each is a whole number of units, and sums of whole
numbers are exact. So a threshold may be searched in any way, on any device, and be the same.
"""

from __future__ import annotations

import numpy as np

from .top_k import in_place

ONE = 2.0**44  # units of the likeliest token's weight: of fewer than 2**19 tokens, the sum fits into an int64


def keep_top_p_naive(scores_RV, p, least=1, out=None):
    """Sorts the whole vocabulary, and sums it from the unlikeliest on."""
    scores_RV = in_place(scores_RV, out)
    order_RV = np.argsort(scores_RV, axis=1, kind="stable")
    sum_RV = np.cumsum(np.take_along_axis(weights(scores_RV), order_RV, axis=1), axis=1)
    goes_RV = sum_RV <= most_that_goes(sum_RV[:, -1:], p)
    goes_RV[:, -least:] = False
    rows, columns = np.nonzero(goes_RV)
    scores_RV[rows, order_RV[rows, columns]] = -np.inf
    return scores_RV


def keep_top_p(scores_RV, p, least=1, out=None):
    """Without a sort: a bisection over the bits of the scores for the least one that stays, among ever fewer tokens."""
    scores_RV = in_place(scores_RV, out)
    weight_RV, key_RV = weights(scores_RV), in_order(scores_RV)
    most_R = most_that_goes(weight_RV.sum(axis=1), p)
    for scores_V, weight_V, key_V, most in zip(scores_RV, weight_RV, key_RV, most_R, strict=True):
        key, weight, tokens = _least_that_stays(key_V, weight_V, most, max(len(key_V) - least, 0))
        tied_X = np.flatnonzero(key_V == key)
        each = weight_V[tied_X[0]]
        tokens = tokens if each == 0 else min(tokens, weight // each)
        scores_V[key_V < key] = -np.inf
        scores_V[tied_X[:tokens]] = -np.inf
    return scores_RV


def weights(scores_RV):
    """exp(score - the row's largest), in whole units, what is left over dropped; 0 where nothing is possible."""
    largest_R1 = scores_RV.max(axis=1, keepdims=True).astype(np.float64)
    below_RV = scores_RV - np.where(np.isfinite(largest_R1), largest_R1, 0)
    below_RV[~np.isfinite(largest_R1[:, 0])] = -np.inf  # nothing is possible, or it is no row of scores
    return (np.exp(below_RV, out=below_RV) * ONE).astype(np.int64)


def most_that_goes(total, p):
    """How much may be ruled out, in whole units."""
    return ((1 - p) * total).astype(np.int64)


def in_order(scores_RV):
    """The bits of the scores as whole numbers that are ordered as the scores are.

    Floats are stored as a sign and a magnitude: those below zero count backwards, and zero has two signs.
    """
    bits_RV = (scores_RV + 0).view(f"i{scores_RV.itemsize}")  # -0 + 0 is 0
    return np.where(bits_RV < 0, bits_RV ^ np.iinfo(bits_RV.dtype).max, bits_RV)


def _least_that_stays(key_X, weight_X, weight, tokens):
    """(the least key of which a token stays, weight and number of those of this key that may still go).

    Everything below the middle goes if it weighs at most `weight`, and is at most `tokens`.
    """
    low, high = int(key_X.min()), int(key_X.max())
    while low < high:
        middle = (low + high + 1) // 2
        below_X = key_X < middle
        weight_below, tokens_below = weight_X[below_X].sum(), np.count_nonzero(below_X)
        goes = weight_below <= weight and tokens_below <= tokens
        if goes:
            low, weight, tokens = middle, weight - weight_below, tokens - tokens_below
        else:
            high = middle - 1
        undecided_X = ~below_X if goes else below_X
        key_X, weight_X = key_X[undecided_X], weight_X[undecided_X]
    return low, weight, tokens
