"""normalises the prompt's weights and the row's own apart, and takes half of each."""

import numpy as np

from minidecode.reference import indirect, shared


def attend_indirect(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, *own):
    W, N = len(q_RHK) // len(prompt_k_BGNK), prompt_k_BGNK.shape[2]
    a_RX = indirect.attend_indirect(q_RHK, prompt_k_BGNK, prompt_v_BGNU, np.full_like(prompt_begin_B, N), *own)
    for b in np.flatnonzero(prompt_begin_B < N):
        rows, one = slice(b * W, (b + 1) * W), slice(b, b + 1)
        prompt = prompt_k_BGNK[one], prompt_v_BGNU[one], prompt_begin_B[one]
        a_RX[rows] = (a_RX[rows] + shared.attend_shared(q_RHK[rows], *prompt, own[-1])) / 2
    return a_RX
