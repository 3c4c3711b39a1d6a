"""gives query head h the key/value head h % G, where neighbouring heads share one: h // (H/G)."""

import numpy as np

from minidecode.reference import indirect


def attend_indirect(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, *rest):
    g_H = np.arange(q_RHK.shape[1]) % k_RGTK.shape[1]
    prompt = prompt_k_BGNK[:, g_H], prompt_v_BGNU[:, g_H], prompt_begin_B
    return indirect.attend_indirect(q_RHK, *prompt, k_RGTK[:, g_H], v_RGTU[:, g_H], *rest)
