"""counts distances to the prompt from where it ends, not from the row's own position."""

import numpy as np

from minidecode.reference.common.attention import (
    add_position_bias,
    distances_back,
    mask_scores,
    scores_of_rows,
    scores_of_sentences,
    sums_of_rows,
    sums_of_sentences,
)
from minidecode.reference.common.softmax import softmax


def attend_split(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, bias=None, out=None
):
    R, B, N = len(q_RHK), len(prompt_k_BGNK), prompt_k_BGNK.shape[2]
    prompt_RHN = scores_of_sentences(q_RHK, prompt_k_BGNK, scale)
    own_RHT = scores_of_rows(q_RHK, k_RGTK, scale)
    if bias is not None:
        add_position_bias(prompt_RHN, bias, distances_back(np.full(R, N + 1), N))
        add_position_bias(own_RHT, bias, distances_back(end_R, k_RGTK.shape[2]))
    mask_scores(prompt_RHN, np.repeat(prompt_begin_B, R // B), np.full(R, N))
    mask_scores(own_RHT, begin_R, end_R)
    weights_RHM = softmax(np.concatenate([prompt_RHN, own_RHT], axis=2))
    a_RHU = sums_of_sentences(weights_RHM[:, :, :N], prompt_v_BGNU) + sums_of_rows(weights_RHM[:, :, N:], v_RGTU)
    return a_RHU.reshape(R, -1)
