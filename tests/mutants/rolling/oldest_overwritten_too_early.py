"""finds the newest position in the slot of the oldest too, as if the next step had written already."""

import numpy as np

from minidecode.reference import rolling


def attend_rolling(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    M, rows = k_RGMK.shape[2], np.arange(len(q_RHK))
    k_RGMK, v_RGMU = k_RGMK.copy(), v_RGMU.copy()
    for slots in (k_RGMK, v_RGMU):
        slots[rows, :, end_R % M] = slots[rows, :, (end_R - 1) % M]
    return rolling.attend_rolling(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale)
