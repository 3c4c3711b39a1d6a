"""gives query head h the key/value head h % G, where neighbouring heads share one: h // (H/G)."""

import numpy as np

from minidecode.reference import paged


def attend_paged(q_RHK, k_XGMK, v_XGMU, *rest):
    g_H = np.arange(q_RHK.shape[1]) % k_XGMK.shape[1]
    return paged.attend_paged(q_RHK, k_XGMK[:, g_H], v_XGMU[:, g_H], *rest)
