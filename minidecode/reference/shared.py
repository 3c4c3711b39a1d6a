"""Attention over a cache that the beams of a sentence share (FastSeq, section 4.1.2)."""

from __future__ import annotations

import numpy as np

from .common.attention import join_heads, mask_scores, scores_of_sentences, sums_of_sentences
from .common.softmax import softmax
from .grouped import attend


def attend_shared_naive(q_RHK, k_BGNK, v_BGNU, begin_B, scale, out=None):
    """The cache that FastSeq found: copied for every beam, and each row against its own copy."""
    R, W = len(q_RHK), len(q_RHK) // len(k_BGNK)
    k_RGNK, v_RGNU = np.repeat(k_BGNK, W, axis=0), np.repeat(v_BGNU, W, axis=0)
    return attend(q_RHK, k_RGNK, v_RGNU, np.repeat(begin_B, W), np.full(R, k_BGNK.shape[2]), scale, None, out)


def attend_shared(q_RHK, k_BGNK, v_BGNU, begin_B, scale, out=None, *, workspace=None):
    """Equation 4: all beams of a sentence in one product per head, which reads its keys and values once for all."""
    B, N = len(k_BGNK), k_BGNK.shape[2]
    scores_RHN = scores_of_sentences(q_RHK, k_BGNK, scale, workspace)
    mask_scores(scores_RHN, np.repeat(begin_B, len(q_RHK) // B), np.full(len(q_RHK), N))
    return join_heads(sums_of_sentences(softmax(scores_RHN, workspace), v_BGNU, workspace), out)
