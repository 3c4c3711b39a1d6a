"""scales the position bias too, where scores get it after their scale."""

from dataclasses import replace

import numpy as np

from minidecode.reference import indirect


def attend_indirect(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R, scale,
    bias=None, out=None,
):  # fmt: skip
    wrong = bias and replace(bias, bias_XHP=np.float32(scale) * bias.bias_XHP)
    cache = prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT
    return indirect.attend_indirect(q_RHK, *cache, begin_R, end_R, scale, wrong)
