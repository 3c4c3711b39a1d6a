"""A step's candidates straight from the logits (LightSeq, section 2.2): hierarchical auto-regressive search."""

from __future__ import annotations

import numpy as np

from . import empty, scratch
from .candidates import group_maxima, top_candidates_naive
from .softmax import log_softmax


def result_arrays(logits_RV, B, C, out):
    """Arrays for the three results, if no `out` is given."""
    return out or tuple(empty(logits_RV, (B, C), dtype) for dtype in (None, np.int64, np.int64))


def hars_candidates_naive(logits_RV, base_BW, C, out=None):
    """The composition: all log-probabilities are written, added to, written again, and sorted."""
    B, W = base_BW.shape
    best_BC, parent_BC, token_BC = result_arrays(logits_RV, B, C, out)
    total_BWV = log_softmax(logits_RV)[0].reshape(B, W, -1) + base_BW[:, :, None]
    best_BC[...], index_BC = top_candidates_naive(total_BWV.reshape(B, -1), C)
    parent_BC[...], token_BC[...] = index_BC // total_BWV.shape[2], index_BC % total_BWV.shape[2]
    return best_BC, parent_BC, token_BC


def hars_candidates(logits_RV, base_BW, C, out=None, *, workspace=None):
    """Each beam hands over what reaches its rough threshold; probabilities are computed for that alone, and sorted.

    The C best of a sentence may all continue one beam, so each beam's threshold lets at least C through.
    """
    (B, W), V = base_BW.shape, logits_RV.shape[1]
    best_BC, parent_BC, token_BC = result_arrays(logits_RV, B, C, out)
    room_V, below_V = scratch(workspace, V, logits_RV), scratch(workspace, V, logits_RV, np.bool_)
    for b in range(B):
        parents, tokens, scores = [], [], []
        for w in range(W):
            logits_V = logits_RV[b * W + w]
            maxima_X = group_maxima(logits_V, C)
            np.less(logits_V, maxima_X.min(), out=below_V)  # `not <`, and not `>=`: NaN is kept, and seen
            kept_X = np.flatnonzero(np.logical_not(below_V, out=below_V))
            largest = maxima_X.max()
            with np.errstate(invalid="ignore"):
                log_sum = np.log(np.exp(np.subtract(logits_V, largest, out=room_V), out=room_V).sum())
                scores.append(logits_V[kept_X] - largest - log_sum + base_BW[b, w])
            parents.append(np.full(len(kept_X), w))
            tokens.append(kept_X)
        (best_BC[b],), (place_C,) = top_candidates_naive(np.concatenate(scores)[None], C)
        parent_BC[b], token_BC[b] = np.concatenate(parents)[place_C], np.concatenate(tokens)[place_C]
    return best_BC, parent_BC, token_BC
