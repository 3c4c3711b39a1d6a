"""has a softmax for the prompt and one for what was generated, and adds both: each part counts as if it were all."""

import numpy as np

from minidecode.reference.split import partial_attention


def attend_split(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None):
    prompt_end_B, a_RHU = np.full_like(prompt_begin_B, prompt_k_BGNK.shape[2]), 0
    for part in ((prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, prompt_end_B), (k_RGTK, v_RGTU, begin_R, end_R)):
        sum_RHU, _, total_RH = partial_attention(q_RHK, *part, scale)
        a_RHU = a_RHU + sum_RHU / np.where(total_RH, total_RH, 1)[:, :, None]
    return a_RHU.reshape(len(q_RHK), -1)
