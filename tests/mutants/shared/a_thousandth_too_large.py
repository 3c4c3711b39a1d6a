"""is 1.001 times what is right: near enough for the eye, and far beyond rounding."""

import numpy as np

from minidecode.reference import shared


def attend_shared(q_RHK, k_BGNK, v_BGNU, begin_B, scale, out=None):
    return shared.attend_shared(q_RHK, k_BGNK, v_BGNU, begin_B, scale) * np.float32(1.001)
