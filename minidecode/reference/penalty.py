"""Repetition penalties: the scores of tokens that a text holds, or its source, made less (Keskar et al. 2019)."""

from __future__ import annotations

import numpy as np

from . import scores_to_change


def penalize_tokens_naive(scores_RV, tokens_XM, length_X, list_R, penalty, out=None):
    """Token by token, each once."""
    scores_RV = scores_to_change(scores_RV, out)
    for r, x in enumerate(list_R):
        for token in set(tokens_XM[x, : length_X[x]].tolist()):
            if token < scores_RV.shape[1]:
                score = scores_RV[r, token]
                with np.errstate(over="ignore"):
                    scores_RV[r, token] = score * penalty if score < 0 else score / penalty
    return scores_RV


def penalize_tokens(scores_RV, tokens_XM, length_X, list_R, penalty, out=None):
    """A row's tokens at once: a token that stands there twice is read twice and written twice, the same each time."""
    scores_RV = scores_to_change(scores_RV, out)
    for scores_V, x in zip(scores_RV, list_R, strict=True):
        ids = tokens_XM[x, : length_X[x]]
        ids = ids[ids < len(scores_V)]
        scores_X = scores_V[ids]
        with np.errstate(over="ignore"):
            scores_V[ids] = np.where(scores_X < 0, scores_X * penalty, scores_X / penalty)
    return scores_RV
