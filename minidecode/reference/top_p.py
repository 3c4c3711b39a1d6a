"""The fewest tokens that hold a share p of the probability: what sampling with top_p leaves (Holtzman et al. 2020).

Nothing here depends on the order in which probabilities are summed: each is a whole number of units, and sums of whole
numbers are exact. So a threshold may be searched in any way, on any device, and be the same.
"""

from __future__ import annotations

import numpy as np

from . import scores_to_change, scratch

ONE = 2.0**44  # units of the likeliest token's weight: of fewer than 2**19 tokens, the sum fits into an int64


def top_p_filter_naive(scores_RV, p, least=1, out=None):
    """Sorts the whole vocabulary, and sums it from the unlikeliest on."""
    scores_RV = scores_to_change(scores_RV, out)
    order_RV = np.argsort(scores_RV, axis=1, kind="stable")
    sum_RV = np.cumsum(np.take_along_axis(whole_weights(scores_RV), order_RV, axis=1), axis=1)
    goes_RV = sum_RV <= most_weight_out(sum_RV[:, -1:], p)
    goes_RV[:, -least:] = False
    rows, columns = np.nonzero(goes_RV)
    scores_RV[rows, order_RV[rows, columns]] = -np.inf
    return scores_RV


def top_p_filter(scores_RV, p, least=1, out=None, *, workspace=None):
    """Without a sort: the place of the least token that stays is halved down to one, among ever fewer tokens.

    Each turn parts those that are left into lower and upper ones, in place, and weighs the lower ones. If these may go,
    the place is above them, and what may go besides is less by as much.
    """
    scores_RV = scores_to_change(scores_RV, out)
    V = scores_RV.shape[1]
    parted_V, is_V = scratch(workspace, V, scores_RV), scratch(workspace, V, scores_RV, np.bool_)
    rooms = scratch(workspace, V, scores_RV, np.float64), scratch(workspace, V, scores_RV, np.int64)
    for scores_V in scores_RV:
        parted_V[...] = scores_V
        largest = scores_V.max()
        most = most_weight_out(_sum_of_weights(parted_V, largest, rooms), p)
        low, high, upper = 0, max(V - least, 0), V  # this many go at least, at most; among this many lowest
        while low < high:
            middle = (low + high + 1) // 2
            parted_V[low:upper].partition(middle - 1 - low)
            weight = _sum_of_weights(parted_V[low:middle], largest, rooms)
            if weight <= most:
                low, most = middle, most - weight
            else:
                high, upper = middle - 1, middle
        if low:
            _rule_out_lowest(scores_V, low, parted_V[:low].max(), is_V)
    return scores_RV


def _sum_of_weights(scores_X, largest, rooms):
    """The sum of the `whole_weights` of some of a row's scores, with room for those."""
    if not np.isfinite(largest):  # nothing is possible, or it is no row of scores
        return np.int64(0)
    share_X, weight_X = (each[: len(scores_X)] for each in rooms)
    np.subtract(scores_X, np.float64(largest), out=share_X)
    np.exp(share_X, out=share_X)
    share_X *= ONE
    np.copyto(weight_X, share_X, casting="unsafe")
    return weight_X.sum()


def _rule_out_lowest(scores_V, count, highest, is_V):
    """`count` scores become minus infinity, of which `highest` is the highest: of equal ones those in lower columns."""
    if highest > -np.inf:
        tied_X = np.flatnonzero(np.equal(scores_V, highest, out=is_V))
        below = np.count_nonzero(np.less(scores_V, highest, out=is_V))
        np.copyto(scores_V, -np.inf, where=is_V)
        scores_V[tied_X[: count - below]] = -np.inf


def whole_weights(scores_RV):
    """exp(score - the row's largest), in whole units, what is left over dropped; 0 where nothing is possible."""
    largest_R1 = scores_RV.max(axis=1, keepdims=True).astype(np.float64)
    below_RV = scores_RV - np.where(np.isfinite(largest_R1), largest_R1, 0)
    below_RV[~np.isfinite(largest_R1[:, 0])] = -np.inf  # nothing is possible, or it is no row of scores
    return (np.exp(below_RV, out=below_RV) * ONE).astype(np.int64)


def most_weight_out(total, p):
    """How much may be ruled out, in whole units."""
    return ((1 - p) * total).astype(np.int64)
