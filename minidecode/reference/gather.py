"""Log-probabilities of sampled tokens, and whether the tokens are valid."""

from __future__ import annotations

import numpy as np

from ..ops import FINE, NONE_LEFT, NOT_A_NUMBER


def result_arrays(token_R, scores_RV, out):
    """Arrays for the two results, if no `out` is given."""
    return (np.empty_like(scores_RV, shape=len(token_R)), np.empty_like(token_R, np.int64)) if out is None else out


def gather_logprobs_naive(token_R, scores_RV, logprobs_RV=None, out=None):
    """Row by row."""
    logprob_R, trouble_R = out = result_arrays(token_R, scores_RV, out)
    for r, token in enumerate(token_R.tolist()):
        score = scores_RV[r, token]
        logprob_R[r] = score if logprobs_RV is None else logprobs_RV[r, token]
        trouble_R[r] = FINE if score > -np.inf else NONE_LEFT
        if np.isnan(score) or np.isnan(logprob_R[r]):
            trouble_R[r] = NOT_A_NUMBER
    return out


def gather_logprobs(token_R, scores_RV, logprobs_RV=None, out=None):
    """One number is picked from each row."""
    logprob_R, trouble_R = out = result_arrays(token_R, scores_RV, out)
    every_R = np.arange(len(token_R))
    score_R = scores_RV[every_R, token_R]
    logprob_R[...] = score_R if logprobs_RV is None else logprobs_RV[every_R, token_R]
    trouble_R[...] = np.where(np.isneginf(score_R), NONE_LEFT, FINE)
    trouble_R[np.isnan(score_R) | np.isnan(logprob_R)] = NOT_A_NUMBER
    return out
