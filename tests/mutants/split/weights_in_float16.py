"""rounds the softmax to float16 where the cache is float16, as a product of two such arrays would have it."""

import numpy as np

from minidecode.reference.common.attention import (
    mask_scores,
    scores_of_rows,
    scores_of_sentences,
    sums_of_rows,
    sums_of_sentences,
)
from minidecode.reference.common.softmax import softmax


def attend_split(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None):
    R, B, N = len(q_RHK), len(prompt_k_BGNK), prompt_k_BGNK.shape[2]
    prompt_RHN = scores_of_sentences(q_RHK, prompt_k_BGNK, scale)
    own_RHT = scores_of_rows(q_RHK, k_RGTK, scale)
    mask_scores(prompt_RHN, np.repeat(prompt_begin_B, R // B), np.full(R, N))
    mask_scores(own_RHT, begin_R, end_R)
    weights_RHM = softmax(np.concatenate([prompt_RHN, own_RHT], axis=2)).astype(k_RGTK.dtype).astype(q_RHK.dtype)
    a_RHU = sums_of_sentences(weights_RHM[:, :, :N], prompt_v_BGNU) + sums_of_rows(weights_RHM[:, :, N:], v_RGTU)
    return a_RHU.reshape(R, -1)
