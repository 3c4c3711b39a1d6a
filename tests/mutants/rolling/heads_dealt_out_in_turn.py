"""gives query head h the key/value head h % G, where neighbouring heads share one: h // (H/G)."""

import numpy as np

from minidecode.reference import rolling


def attend_rolling(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    g_H = np.arange(q_RHK.shape[1]) % k_RGMK.shape[1]
    return rolling.attend_rolling(q_RHK, k_RGMK[:, g_H], v_RGMU[:, g_H], begin_R, end_R, scale)
