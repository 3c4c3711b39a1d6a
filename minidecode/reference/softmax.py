"""Log-probabilities: the logarithm of a softmax, of all tokens or of one."""

from __future__ import annotations

import numpy as np

from ..ops import FINE, NOT_A_NUMBER
from . import scratch


def result_arrays(logits_RV, out):
    """Arrays for the two results, if no `out` is given."""
    if out is not None:
        return out
    return np.empty_like(logits_RV), np.empty_like(logits_RV, np.int64, shape=len(logits_RV))


def log_softmax_naive(logits_RV, out=None):
    """An array for each elementary step."""
    scores_RV, trouble_R = out = result_arrays(logits_RV, out)
    with np.errstate(invalid="ignore"):
        below_RV = logits_RV - logits_RV.max(axis=1, keepdims=True)
        scores_RV[...] = below_RV - np.log(np.exp(below_RV).sum(axis=1, keepdims=True))
    trouble_R[...] = np.where(np.isnan(scores_RV).any(axis=1), NOT_A_NUMBER, FINE)
    return out


def log_softmax(logits_RV, out=None, *, workspace=None):
    """The exponentials are needed for their sum alone: one row of them at a time. Where it is NaN, the row is."""
    scores_RV, trouble_R = out = result_arrays(logits_RV, out)
    exp_V = scratch(workspace, logits_RV.shape[1], logits_RV)
    with np.errstate(invalid="ignore"):  # inf - inf is NaN, as it should be
        np.subtract(logits_RV, logits_RV.max(axis=1, keepdims=True), out=scores_RV)
        for r, scores_V in enumerate(scores_RV):
            log_sum = np.log(np.exp(scores_V, out=exp_V).sum())
            scores_V -= log_sum
            trouble_R[r] = NOT_A_NUMBER if np.isnan(log_sum) else FINE
    return out


def token_logprobs_naive(logits_RV, token_R, out=None):
    """A softmax over the vocabulary for every row, of which one number a row is taken."""
    scores_RV, _ = log_softmax(logits_RV)
    score_R = np.take_along_axis(scores_RV, np.asarray(token_R)[:, None], axis=1)[:, 0]
    if out is None:
        return score_R
    out[...] = score_R
    return out


def token_logprobs(logits_RV, token_R, out=None):
    """Row by row: the exponentials of one row are all that is ever written, always in the same place."""
    R, V = logits_RV.shape
    score_R = np.empty(R, logits_RV.dtype) if out is None else out
    row_V = np.empty(V, logits_RV.dtype)
    for r, token in enumerate(token_R):
        np.subtract(logits_RV[r], logits_RV[r].max(), out=row_V)
        score_R[r] = row_V[token]
        score_R[r] -= np.log(np.exp(row_V, out=row_V).sum())
    return score_R
