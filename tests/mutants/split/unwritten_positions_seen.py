"""looks at positions that nobody has written yet: what lies from a row's end on has a weight."""

import numpy as np

from minidecode.reference import split


def attend_split(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None):
    prompt, last_R = (prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B), np.full_like(end_R, k_RGTK.shape[2])
    return split.attend_split(q_RHK, *prompt, k_RGTK, v_RGTU, begin_R, last_R, scale)
