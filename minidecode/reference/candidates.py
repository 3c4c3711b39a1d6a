"""The best continuations of a beam: retrieve and rerank (LightSeq, section 2.2).

All versions but the naive one do it in two stages: a threshold that at least C scores reach, then an exact sort of
those that reach it. They differ in how they come by the threshold. The largest scores of C groups of scores are C
scores, so at least C scores reach the least of them, whatever the groups: the best C are always among what is kept.
"""

from __future__ import annotations

import numpy as np

from . import scratch

LANES = 1024  # scores that are compared at a time; the published kernel has as many threads


def top_candidates_naive(scores_BX, C, out=None):
    """Sorts everything. NaN, if there is any, comes last."""
    order_BX = np.argsort(-scores_BX, axis=1, kind="stable")
    worst_B1 = np.take_along_axis(scores_BX, order_BX[:, -1:], axis=1)
    return candidates_in_columns(scores_BX, order_BX[:, :C], np.isnan(worst_B1[:, 0]), out)


def top_candidates_partition(scores_BX, C, out=None):
    """An exact threshold: the C-th largest score, by a partial sort of a copy of them all."""
    return _retrieve_and_rerank(scores_BX, C, kth_largest, out)


def top_candidates_hars(scores_BX, C, out=None):
    """A rough threshold, as in the paper: the least of the largest scores of C groups. About C (1 + 1/2 + ... + 1/C)
    scores reach it, as many as one draws until each of C groups has been drawn.
    """
    return _retrieve_and_rerank(scores_BX, C, lambda scores_X, C: group_maxima(scores_X, C).min(), out)


def top_candidates(scores_BX, C, out=None, *, workspace=None):
    """A rough threshold that is closer: of the largest scores of many groups, the C-th largest. Hardly more than C
    scores reach it, for the best C seldom meet in one of a thousand groups.
    """
    groups = max(LANES, C)
    largest_X = scratch(workspace, min(groups, scores_BX.shape[1]), scores_BX)

    def threshold_of(scores_X, C):
        _column_maxima(scores_X, groups, largest_X)
        largest_X.partition(len(largest_X) - C)
        return largest_X[len(largest_X) - C]

    return _retrieve_and_rerank(scores_BX, C, threshold_of, out, workspace)


def kth_largest(scores_X, k):
    """The k-th largest; -inf, which all reach, where there are fewer. NaN counts as the largest."""
    if len(scores_X) < k:
        return scores_X.dtype.type(-np.inf)
    return np.partition(scores_X, len(scores_X) - k)[len(scores_X) - k]


def group_maxima(scores_X, groups):
    """The largest score of each group, where score x belongs to group x mod `groups`.

    So neighbours, which are alike where a vocabulary is sorted by frequency, fall into different groups. NumPy compares
    long rows fast and short ones slowly, so the scores are folded into rows of about LANES first.
    """
    return _column_maxima(_column_maxima(scores_X, groups * max(1, LANES // groups)), groups)


def _column_maxima(scores_X, columns, out=None):
    """The largest of each column, of scores in rows of `columns`, one under the other; the last row may be short."""
    if len(scores_X) <= columns:
        if out is None:
            return scores_X
        out[...] = scores_X
        return out
    whole = len(scores_X) // columns * columns
    largest_X = scores_X[:whole].reshape(-1, columns).max(axis=0, out=out)
    rest = len(scores_X) - whole
    np.maximum(largest_X[:rest], scores_X[whole:], out=largest_X[:rest])
    return largest_X


def _retrieve_and_rerank(scores_BX, C, threshold_of, out, workspace=None):
    """Sorts what reaches the threshold. It is `not <`, and not `>=`, so that NaN is kept and seen."""
    reaches_X = scratch(workspace, scores_BX.shape[1], scores_BX, np.bool_)
    index_BC, has_nan_B = np.empty((len(scores_BX), C), np.int64), np.zeros(len(scores_BX), bool)
    for b, scores_X in enumerate(scores_BX):
        np.less(scores_X, threshold_of(scores_X, C), out=reaches_X)
        kept_X = np.flatnonzero(np.logical_not(reaches_X, out=reaches_X))
        order_X = kept_X[np.argsort(-scores_X[kept_X], kind="stable")]
        index_BC[b], has_nan_B[b] = order_X[:C], np.isnan(scores_X[order_X[-1]])
    return candidates_in_columns(scores_BX, index_BC, has_nan_B, out)


def candidates_in_columns(scores_BX, index_BC, has_nan_B, out):
    """The scores in those columns; where a row holds NaN, NaN."""
    best_BC = np.take_along_axis(scores_BX, index_BC, axis=1)
    best_BC[has_nan_B] = np.nan
    index_BC[has_nan_B] = np.arange(index_BC.shape[1])
    if out is None:
        return best_BC, index_BC
    out[0][...], out[1][...] = best_BC, index_BC
    return out
