"""takes the position bias off the scores: the wrong sign."""

from dataclasses import replace

from minidecode.reference import rolling


def attend_rolling(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias=None, out=None):
    wrong = bias and replace(bias, bias_XHP=-bias.bias_XHP)
    return rolling.attend_rolling(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, wrong)
