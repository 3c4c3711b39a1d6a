"""attends to the padding in front of the prompt."""

import numpy as np

from minidecode.reference import indirect


def attend_indirect(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, *rest):
    return indirect.attend_indirect(q_RHK, prompt_k_BGNK, prompt_v_BGNU, np.zeros_like(prompt_begin_B), *rest)
