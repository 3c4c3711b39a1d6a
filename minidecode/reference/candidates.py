"""The best continuations of a beam."""

from __future__ import annotations

import numpy as np

CHUNK = 64


def top_candidates_naive(scores_BX, C, out=None):
    """Sorts everything."""
    index_BC = np.argsort(-scores_BX, axis=1, kind="stable")[:, :C]
    return _result(scores_BX, index_BC, out)


def top_candidates(scores_BX, C, out=None):
    """A threshold first, then a sort of what reaches it.

    Of the largest scores of chunks, take the C-th largest: C scores reach it, so the best C do.
    """
    B, X = scores_BX.shape
    index_BC = np.empty((B, C), np.int64)
    whole = X - X % CHUNK
    for b in range(B):
        largest = np.concatenate([scores_BX[b, :whole].reshape(-1, CHUNK).max(axis=1), scores_BX[b, whole:]])
        threshold = np.partition(largest, len(largest) - C)[len(largest) - C] if len(largest) >= C else -np.inf
        reaching = np.flatnonzero(scores_BX[b] >= threshold)
        index_BC[b] = reaching[np.argsort(-scores_BX[b, reaching], kind="stable")[:C]]
    return _result(scores_BX, index_BC, out)


def _result(scores_BX, index_BC, out):
    best_BC = np.take_along_axis(scores_BX, index_BC, axis=1)
    if out is None:
        return best_BC, index_BC
    out[0][...], out[1][...] = best_BC, index_BC
    return out
