"""The best continuations of a beam."""

from __future__ import annotations

import numpy as np

CHUNK = 64


def top_candidates_naive(scores_BX, C, out=None):
    """Sorts everything."""
    index_BC = np.argsort(-scores_BX, axis=1, kind="stable")[:, :C]
    return _result(scores_BX, index_BC, out)


def top_candidates(scores_BX, C, out=None, *, workspace=np.empty):
    """A threshold first, then a sort of what reaches it.

    Of the largest scores of chunks, take the C-th largest: C scores reach it, so the best C do.
    """
    B, X = scores_BX.shape
    index_BC = np.empty((B, C), np.int64)
    chunks, rest = divmod(X, CHUNK)
    largest, reaches = workspace(chunks + rest, scores_BX.dtype), workspace(X, np.bool_)
    for b in range(B):
        scores_BX[b, : X - rest].reshape(chunks, CHUNK).max(axis=1, out=largest[:chunks])
        largest[chunks:] = scores_BX[b, X - rest :]
        if len(largest) >= C:
            largest.partition(len(largest) - C)
        threshold = largest[len(largest) - C] if len(largest) >= C else -np.inf
        reaching = np.flatnonzero(np.greater_equal(scores_BX[b], threshold, out=reaches))
        index_BC[b] = reaching[np.argsort(-scores_BX[b, reaching], kind="stable")[:C]]
    return _result(scores_BX, index_BC, out)


def _result(scores_BX, index_BC, out):
    best_BC = np.take_along_axis(scores_BX, index_BC, axis=1)
    if out is None:
        return best_BC, index_BC
    out[0][...], out[1][...] = best_BC, index_BC
    return out
