"""The k likeliest tokens: what sampling with top_k leaves (Fan et al. 2018; LightSeq's `ker_topk_sample`)."""

from __future__ import annotations

import numpy as np

from . import scores_to_change, scratch


def top_k_filter_naive(scores_RV, k, out=None):
    """Sorts the whole vocabulary to look at one place of it."""
    scores_RV = scores_to_change(scores_RV, out)
    V = scores_RV.shape[1]
    if k < V:
        rule_out_below(scores_RV, np.sort(scores_RV, axis=1)[:, V - k])
    return scores_RV


def top_k_filter(scores_RV, k, out=None, *, workspace=None):
    """Finds each row's k-th largest by a partial sort, which puts that one into its place and no other."""
    scores_RV = scores_to_change(scores_RV, out)
    V = scores_RV.shape[1]
    sorted_V, goes_V = scratch(workspace, V, scores_RV), scratch(workspace, V, scores_RV, np.bool_)
    if k < V:
        for scores_V in scores_RV:
            sorted_V[...] = scores_V
            sorted_V.partition(V - k)
            np.copyto(scores_V, -np.inf, where=np.less(scores_V, sorted_V[V - k], out=goes_V))
    return scores_RV


def rule_out_below(scores_RV, least_R):
    """What ties with the k-th stays."""
    scores_RV[scores_RV < least_R[:, None]] = -np.inf
