"""takes all rows to be as long as the first."""

import numpy as np

from minidecode.reference import rolling


def attend_rolling(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    end_R = np.full_like(end_R, end_R[0])
    return rolling.attend_rolling(q_RHK, k_RGMK, v_RGMU, np.minimum(begin_R, end_R - 1), end_R, scale)
