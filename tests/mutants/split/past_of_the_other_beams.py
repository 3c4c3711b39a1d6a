"""lets each beam see what all beams of its sentence have generated, as a block reads it for all of them."""

import numpy as np

from minidecode.reference import split


def attend_split(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None):
    W, answers = len(q_RHK) // len(prompt_k_BGNK), []
    for r in range(len(q_RHK)):
        b, rows = r // W, range(r // W * W, r // W * W + W)
        past = [np.concatenate([c[o, :, begin_R[o] : end_R[o]] for o in rows], axis=1)[None] for c in (k_RGTK, v_RGTU)]
        prompt = prompt_k_BGNK[b : b + 1], prompt_v_BGNU[b : b + 1], prompt_begin_B[b : b + 1]
        seen = np.zeros(1, np.int64), np.full(1, past[0].shape[2])
        answers.append(split.attend_split(q_RHK[r : r + 1], *prompt, *past, *seen, scale)[0])
    return np.stack(answers)
