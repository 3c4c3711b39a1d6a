"""The best continuations of a beam."""

from __future__ import annotations

import numpy as np


def top_candidates(scores_BX, C, out=None):
    """Partial selection: find the C-th largest score, keep what is above it, fill up with the first of its equals."""
    B, X = scores_BX.shape
    index_BC = np.empty((B, C), np.int64)
    for b in range(B):
        threshold = np.partition(scores_BX[b], X - C)[X - C]
        above = np.flatnonzero(scores_BX[b] > threshold)
        equal = np.flatnonzero(scores_BX[b] == threshold)[: C - len(above)]
        chosen = np.concatenate([above, equal])
        index_BC[b] = chosen[np.lexsort((chosen, -scores_BX[b, chosen]))]
    best_BC = np.take_along_axis(scores_BX, index_BC, axis=1)
    if out is None:
        return best_BC, index_BC
    out[0][...], out[1][...] = best_BC, index_BC
    return out
