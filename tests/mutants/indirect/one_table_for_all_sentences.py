"""looks every sentence up in the table of the first, as where one generation's index is kept for the next."""

import numpy as np

from minidecode.reference import indirect


def attend_indirect(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, *rest):
    R, B = len(q_RHK), len(prompt_k_BGNK)
    first_row_R1 = np.arange(R)[:, None] // (R // B) * (R // B)
    kept_RT = np.tile(indirection_RT[: R // B], (B, 1)) + first_row_R1
    prompt = prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B
    return indirect.attend_indirect(q_RHK, *prompt, k_RGTK, v_RGTU, kept_RT, *rest)
