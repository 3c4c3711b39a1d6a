"""takes the position bias off the scores: the wrong sign."""

from dataclasses import replace

from minidecode.reference import split


def attend_split(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, bias=None, out=None
):
    wrong = bias and replace(bias, bias_XHP=-bias.bias_XHP)
    arguments = q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale
    return split.attend_split(*arguments, wrong)
