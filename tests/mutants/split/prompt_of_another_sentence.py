"""gives row r the prompt of sentence r % B, where the beams of a sentence lie side by side: r // (R/B)."""

import numpy as np

from minidecode.reference import split


def attend_split(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None):
    sentence_R = np.arange(len(q_RHK)) % len(prompt_k_BGNK)
    prompt = prompt_k_BGNK[sentence_R], prompt_v_BGNU[sentence_R], prompt_begin_B[sentence_R]
    return split.attend_split(q_RHK, *prompt, k_RGTK, v_RGTU, begin_R, end_R, scale)
