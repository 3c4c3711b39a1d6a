"""Attention over a memory that the beams of a sentence share (FastSeq, section 4.1.2)."""

from __future__ import annotations

import numpy as np

from .attention import heads_side_by_side, mask, scores_of_sentences, sums_of_sentences
from .softmax import softmax


def attend_shared(q_RHK, k_BGNK, v_BGNU, begin_B, scale, out=None, *, workspace=np.empty):
    """All beams of a sentence in one product per head: its keys and values are read once for all of them."""
    B, N = len(k_BGNK), k_BGNK.shape[2]
    scores_RHN = scores_of_sentences(q_RHK, k_BGNK, scale, workspace)
    mask(scores_RHN, np.repeat(begin_B, len(q_RHK) // B), np.full(len(q_RHK), N))
    return heads_side_by_side(sums_of_sentences(softmax(scores_RHN, workspace), v_BGNU, workspace), out)
