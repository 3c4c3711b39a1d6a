"""Attention over a prompt that the beams of a sentence share, and over what each has generated (FastSeq, 4.1.1)."""

from __future__ import annotations

import numpy as np

from .attention import heads_side_by_side, mask, scores_of_rows, scores_of_sentences, sums_of_rows, sums_of_sentences
from .grouped import attend
from .softmax import softmax


def attend_split_naive(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None
):
    """The memory that FastSeq found: the prompt copied for every beam, and what each has generated behind it."""
    R, B, N = len(q_RHK), len(prompt_k_BGNK), prompt_k_BGNK.shape[2]
    sentence_R = np.arange(R) // (R // B)
    a_RX = np.empty((R, q_RHK.shape[1] * v_RGTU.shape[3]), q_RHK.dtype) if out is None else out
    for r, b in enumerate(sentence_R):  # the two parts of a row need not touch, so each row by itself
        prompt, own = slice(prompt_begin_B[b], N), slice(begin_R[r], end_R[r])
        k_1GMK = np.concatenate([prompt_k_BGNK[b, :, prompt], k_RGTK[r, :, own]], axis=1)[None]
        v_1GMU = np.concatenate([prompt_v_BGNU[b, :, prompt], v_RGTU[r, :, own]], axis=1)[None]
        a_RX[r] = attend(q_RHK[r : r + 1], k_1GMK, v_1GMU, np.zeros(1, int), np.full(1, k_1GMK.shape[2]), scale)[0]
    return a_RX


def attend_split(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None, *,
    workspace=np.empty,
):  # fmt: skip
    """Equation 3: two partial scores side by side, one softmax, split again, two partial sums, added."""
    B, N = len(prompt_k_BGNK), prompt_k_BGNK.shape[2]
    R, T = len(q_RHK), int(end_R.max())
    prompt_scores_RHN = scores_of_sentences(q_RHK, prompt_k_BGNK, scale, workspace)
    scores_RHT = scores_of_rows(q_RHK, k_RGTK[:, :, :T], scale, workspace)
    mask(prompt_scores_RHN, np.repeat(prompt_begin_B, R // B), np.full(R, N))
    mask(scores_RHT, begin_R, end_R)
    scores_RHM = workspace((R, q_RHK.shape[1], N + T), q_RHK.dtype)
    np.concatenate([prompt_scores_RHN, scores_RHT], axis=2, out=scores_RHM)
    weights_RHM = softmax(scores_RHM, workspace)
    prompt_weights_RHN, weights_RHT = weights_RHM[:, :, :N], weights_RHM[:, :, N:]
    a_RHU = sums_of_sentences(prompt_weights_RHN, prompt_v_BGNU, workspace)
    a_RHU += sums_of_rows(weights_RHT, v_RGTU[:, :, :T], workspace)
    return heads_side_by_side(a_RHU, out)
