"""Attention over a cache of its own for each row, whose key/value heads may serve several query heads each."""

from __future__ import annotations

import numpy as np

from .common.attention import add_position_bias, distances_back, join_heads, mask_scores, scores_of_rows, sums_of_rows
from .common.softmax import softmax


def attend_naive(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias=None, out=None):
    """What grouped heads replace: keys and values repeated, a copy for each query head, then plain multi-head."""
    per_group = q_RHK.shape[1] // k_RGMK.shape[1]
    k_RHMK, v_RHMU = np.repeat(k_RGMK, per_group, axis=1), np.repeat(v_RGMU, per_group, axis=1)
    return attend(q_RHK, k_RHMK, v_RHMU, begin_R, end_R, scale, bias, out)


def attend(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias=None, out=None, *, workspace=None):
    """All rows at once: each is a small product with its own cache."""
    M = int(end_R.max())
    scores_RHM = scores_of_rows(q_RHK, k_RGMK[:, :, :M], scale, workspace)
    if bias is not None:
        add_position_bias(scores_RHM, bias, distances_back(end_R, M, workspace), workspace)
    mask_scores(scores_RHM, begin_R, end_R)
    return join_heads(sums_of_rows(softmax(scores_RHM, workspace), v_RGMU[:, :, :M], workspace), out)
