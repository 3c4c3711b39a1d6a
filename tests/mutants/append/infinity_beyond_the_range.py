"""stores infinity for what float16 cannot hold."""

import numpy as np

from minidecode.reference.heads import split_heads


def append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out=None):
    q_RHK, k_RGK, v_RGU = split_heads(qkv_RX, bias_X, heads)
    rows_R = np.arange(len(at_R))
    with np.errstate(over="ignore"):
        k_RGMK[rows_R, :, at_R], v_RGMU[rows_R, :, at_R] = k_RGK, v_RGU
    return q_RHK
