"""sees one position less than there are slots: the oldest is left out."""

import numpy as np

from minidecode.reference import rolling


def attend_rolling(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    begin_R = np.maximum(begin_R, np.minimum(end_R - k_RGMK.shape[2] + 1, end_R - 1))
    return rolling.attend_rolling(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale)
