"""looks at the padding of shorter prompts: what lies before a prompt's begin has a weight."""

import numpy as np

from minidecode.reference import split


def attend_split(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None):
    prompt = prompt_k_BGNK, prompt_v_BGNU, np.zeros_like(prompt_begin_B)
    return split.attend_split(q_RHK, *prompt, k_RGTK, v_RGTU, begin_R, end_R, scale)
