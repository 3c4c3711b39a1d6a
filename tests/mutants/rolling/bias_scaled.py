"""scales the position bias too, where scores get it after their scale."""

from dataclasses import replace

import numpy as np

from minidecode.reference import rolling


def attend_rolling(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias=None, out=None):
    wrong = bias and replace(bias, bias_XHP=np.float32(scale) * bias.bias_XHP)
    return rolling.attend_rolling(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, wrong)
