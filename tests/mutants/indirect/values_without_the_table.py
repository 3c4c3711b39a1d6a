"""looks the keys up, and takes the values from the row itself."""

import numpy as np

from minidecode.reference import indirect


def attend_indirect(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, *rest):
    (R, T), k_RGTK = indirection_RT.shape, k_RGTK.copy()
    for t in range(T):
        k_RGTK[:, :, t] = k_RGTK[indirection_RT[:, t], :, t]
    prompt, own_RT = (prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B), np.tile(np.arange(R)[:, None], T)
    return indirect.attend_indirect(q_RHK, *prompt, k_RGTK, v_RGTU, own_RT, *rest)
