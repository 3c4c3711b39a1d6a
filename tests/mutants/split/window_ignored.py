"""looks at all that a row has generated, also what lies before its begin, outside of the window."""

import numpy as np

from minidecode.reference import split


def attend_split(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None):
    prompt = prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B
    return split.attend_split(q_RHK, *prompt, k_RGTK, v_RGTU, np.zeros_like(begin_R), end_R, scale)
