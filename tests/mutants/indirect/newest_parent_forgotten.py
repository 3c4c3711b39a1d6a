"""looks the position before the newest up in the row itself: a stale beam, whose last change of places is forgotten."""

import numpy as np

from minidecode.reference import indirect


def attend_indirect(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R, scale
):
    stale_RT = indirection_RT.copy()
    for r in np.flatnonzero(end_R > 1):
        stale_RT[r, end_R[r] - 2] = r
    prompt, own = (prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B), (k_RGTK, v_RGTU, stale_RT, begin_R, end_R)
    return indirect.attend_indirect(q_RHK, *prompt, *own, scale)
