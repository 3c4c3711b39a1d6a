"""adds the parts' sums and totals as they are, though each has taken off a largest score of its own."""

import numpy as np

from minidecode.reference.split import partial_attention


def attend_split(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None):
    prompt_end_B, sums_RHU, totals_RH = np.full_like(prompt_begin_B, prompt_k_BGNK.shape[2]), 0, 0
    for part in ((prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, prompt_end_B), (k_RGTK, v_RGTU, begin_R, end_R)):
        sum_RHU, _, total_RH = partial_attention(q_RHK, *part, scale)
        sums_RHU, totals_RH = sums_RHU + sum_RHU, totals_RH + total_RH
    return (sums_RHU / totals_RH[:, :, None]).reshape(len(q_RHK), -1)
