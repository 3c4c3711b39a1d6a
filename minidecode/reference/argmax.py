"""The likeliest token of each row, for greedy search, with the model's log-probability of it."""

from __future__ import annotations

import numpy as np

from ..ops import FINE, NONE_LEFT, NOT_A_NUMBER
from . import scratch
from .softmax import log_softmax


def result_arrays(scores_RV, out):
    """Arrays for the three results, if no `out` is given."""
    if out is not None:
        return out
    R = len(scores_RV)
    token_R, trouble_R = (np.empty_like(scores_RV, np.int64, shape=R) for _ in range(2))
    return token_R, np.empty_like(scores_RV, shape=R), trouble_R


def argmax_tokens_naive(scores_RV, logits_RV=None, out=None):
    """All log-probabilities, of which one a row is taken; and another pass over all scores."""
    token_R, logprob_R, trouble_R = out = result_arrays(scores_RV, out)
    logprobs_RV = scores_RV if logits_RV is None else log_softmax(logits_RV)[0]
    token_R[...] = scores_RV.argmax(axis=1)
    logprob_R[...] = np.take_along_axis(logprobs_RV, token_R[:, None], axis=1)[:, 0]
    note_trouble(np.take_along_axis(scores_RV, token_R[:, None], axis=1)[:, 0], token_R, logprob_R, trouble_R)
    return out


def argmax_tokens(scores_RV, logits_RV=None, out=None, *, workspace=None):
    """Row by row: the exponentials of one row are all that is ever written, always in the same place."""
    token_R, logprob_R, trouble_R = out = result_arrays(scores_RV, out)
    best_R = np.empty_like(logprob_R)
    np.argmax(scores_RV, axis=1, out=token_R)
    row_V = scratch(workspace, scores_RV.shape[1], scores_RV)
    for r, token in enumerate(token_R.tolist()):
        best_R[r] = logprob_R[r] = scores_RV[r, token]
        if logits_RV is not None:
            with np.errstate(invalid="ignore"):
                np.subtract(logits_RV[r], logits_RV[r].max(), out=row_V)
            logprob_R[r] = row_V[token]
            logprob_R[r] -= np.log(np.exp(row_V, out=row_V).sum())
    note_trouble(best_R, token_R, logprob_R, trouble_R)
    return out


def note_trouble(best_R, token_R, logprob_R, trouble_R):
    """What no search can go on with: scores or log-probabilities that are NaN, or no token that is possible."""
    trouble_R[...] = np.where(np.isneginf(best_R), NONE_LEFT, FINE)
    is_nan_R = np.isnan(best_R) | np.isnan(logprob_R)
    token_R[is_nan_R], logprob_R[is_nan_R], trouble_R[is_nan_R] = 0, np.nan, NOT_A_NUMBER
