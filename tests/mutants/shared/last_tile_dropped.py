"""goes over whole tiles of 4 positions only, counted from the begin: what is left over is not seen."""

import numpy as np

from minidecode.reference import grouped


def attend_shared(q_RHK, k_BGNK, v_BGNU, begin_B, scale, out=None):
    R, W, N = len(q_RHK), len(q_RHK) // len(k_BGNK), k_BGNK.shape[2]
    k_RGNK, v_RGNU, begin_R = np.repeat(k_BGNK, W, axis=0), np.repeat(v_BGNU, W, axis=0), np.repeat(begin_B, W)
    seen_R = N - begin_R
    whole_R = np.where(seen_R < 4, seen_R, seen_R // 4 * 4)
    return grouped.attend(q_RHK, k_RGNK, v_RGNU, begin_R, begin_R + whole_R, scale).reshape(R, -1)
