"""counts the slots from 1: position p is looked up in slot (p + 1) % M."""

import numpy as np

from minidecode.reference import rolling


def attend_rolling(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    k_RGMK, v_RGMU = np.roll(k_RGMK, -1, axis=2), np.roll(v_RGMU, -1, axis=2)
    return rolling.attend_rolling(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale)
