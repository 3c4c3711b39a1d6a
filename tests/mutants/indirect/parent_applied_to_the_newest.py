"""looks the newest position up in the parent's row, where the one before it lies: but each row wrote it itself."""

import numpy as np

from minidecode.reference import indirect


def attend_indirect(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R, scale
):
    early_RT = indirection_RT.copy()
    for r in np.flatnonzero(end_R > 1):
        early_RT[r, end_R[r] - 1] = indirection_RT[r, end_R[r] - 2]
    prompt, own = (prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B), (k_RGTK, v_RGTU, early_RT, begin_R, end_R)
    return indirect.attend_indirect(q_RHK, *prompt, *own, scale)
