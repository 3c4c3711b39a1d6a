"""looks at the padding too: what lies before a sentence's begin has a weight."""

import numpy as np

from minidecode.reference import shared


def attend_shared(q_RHK, k_BGNK, v_BGNU, begin_B, scale, out=None):
    return shared.attend_shared(q_RHK, k_BGNK, v_BGNU, np.zeros_like(begin_B), scale)
