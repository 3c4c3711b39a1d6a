"""scales the scores of the prompt alone: those of what was generated are taken as they are."""

import numpy as np

from minidecode.reference import split


def attend_split(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None):
    prompt = prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B
    return split.attend_split(q_RHK, *prompt, k_RGTK / np.float32(scale), v_RGTU, begin_R, end_R, scale)
