"""takes the slot for the position: right until the first slot is used again."""

import numpy as np

from minidecode.reference import grouped


def attend_rolling(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    M = k_RGMK.shape[2]
    first_R, last_R = np.minimum(begin_R, M - 1), np.minimum(end_R, M)
    return grouped.attend(q_RHK, k_RGMK, v_RGMU, first_R, last_R, scale)
