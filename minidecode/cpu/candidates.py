"""The best continuations of a beam, compiled for the CPU."""

from __future__ import annotations

import numpy as np

from .common.best_columns import PART, how_many_beat, insert
from .common.jit import njit


def top_candidates(scores_BX, C, out=None):
    """Finds the candidates in one pass, in which the worst of the best C so far is the threshold.

    Parts of 256 scores are compared with it on vectors; only a part that holds a better one is gone through. Scores in
    random order have about C ln(X/C) such parts a row, so that reading them is nearly all there is to do.
    """
    shape = len(scores_BX), C
    best_BC, index_BC = out or (np.empty(shape, scores_BX.dtype), np.empty(shape, np.int64))
    _top_candidates(scores_BX, best_BC, index_BC)
    return best_BC, index_BC


@njit(cache=True)
def _top_candidates(scores_BX, best_BC, index_BC):
    (B, X), C = scores_BX.shape, best_BC.shape[1]
    for b in range(B):
        scores_X, best_C, index_C = scores_BX[b], best_BC[b], index_BC[b]
        has_nan = False
        for x in range(C):  # the first C scores, in order
            insert(best_C[: x + 1], index_C[: x + 1], scores_X[x], x)
            has_nan |= np.isnan(scores_X[x])
        for first in range(C, X, PART):
            part_X = scores_X[first : first + PART]
            if not how_many_beat(part_X, best_C[-1]):
                continue
            for k in range(len(part_X)):
                if part_X[k] > best_C[-1]:
                    insert(best_C, index_C, part_X[k], first + k)
                has_nan |= np.isnan(part_X[k])
        if has_nan:
            best_C[:], index_C[:] = np.nan, np.arange(C)
