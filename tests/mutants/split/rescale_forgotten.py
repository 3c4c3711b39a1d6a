"""does not scale what the prompt gave when a row's own positions have a larger score: one pass without rescaling."""

import numpy as np

from minidecode.reference.split import partial_attention


def attend_split(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None):
    prompt_end_B = np.full_like(prompt_begin_B, prompt_k_BGNK.shape[2])
    prompt = partial_attention(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, prompt_end_B, scale)
    own = partial_attention(q_RHK, k_RGTK, v_RGTU, begin_R, end_R, scale)
    own_scale_RH = np.exp(np.minimum(own[1] - prompt[1], 0))  # right where the prompt has the larger score
    sums_RHU, totals_RH = prompt[0] + own_scale_RH[:, :, None] * own[0], prompt[2] + own_scale_RH * own[2]
    return (sums_RHU / totals_RH[:, :, None]).reshape(len(q_RHK), -1)
