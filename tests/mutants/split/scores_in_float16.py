"""takes the queries' products with keys of float16 in float16."""

import numpy as np

from minidecode.reference.common.attention import mask_scores, sums_of_rows, sums_of_sentences
from minidecode.reference.common.softmax import softmax


def attend_split(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None):
    (R, H, _), (B, G, N, _) = q_RHK.shape, prompt_k_BGNK.shape
    heads_H, sentence_R = np.arange(H) // (H // G), np.arange(R) // (R // B)
    q_RHK = q_RHK.astype(k_RGTK.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        prompt_RHN = np.einsum("rhk,rhnk->rhn", q_RHK, prompt_k_BGNK[sentence_R][:, heads_H]) * np.float32(scale)
        own_RHT = np.einsum("rhk,rhtk->rht", q_RHK, k_RGTK[:, heads_H]) * np.float32(scale)
    mask_scores(prompt_RHN, prompt_begin_B[sentence_R], np.full(R, N))
    mask_scores(own_RHT, begin_R, end_R)
    weights_RHM = softmax(np.concatenate([prompt_RHN, own_RHT], axis=2))
    a_RHU = sums_of_sentences(weights_RHM[:, :, :N], prompt_v_BGNU) + sums_of_rows(weights_RHM[:, :, N:], v_RGTU)
    return a_RHU.reshape(R, -1)
