"""scales the position bias too, where scores get it after their scale."""

from dataclasses import replace

import numpy as np

from minidecode.reference import split


def attend_split(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, bias=None, out=None
):
    wrong = bias and replace(bias, bias_XHP=np.float32(scale) * bias.bias_XHP)
    arguments = q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale
    return split.attend_split(*arguments, wrong)
