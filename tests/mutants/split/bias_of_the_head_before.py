"""gives each query head the position bias of the one before it."""

from dataclasses import replace

import numpy as np

from minidecode.reference import split


def attend_split(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, bias=None, out=None
):
    wrong = bias and replace(bias, bias_XHP=np.roll(bias.bias_XHP, 1, axis=1))
    arguments = q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale
    return split.attend_split(*arguments, wrong)
