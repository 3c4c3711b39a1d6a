"""stores infinity for what float16 cannot hold."""

import numpy as np

from minidecode.reference.heads import split_heads


def append_paged(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R, out=None):
    q_RHK, k_RGK, v_RGU = split_heads(qkv_RX, bias_X, heads)
    nth_R, slot_R = np.divmod(at_R, k_XGMK.shape[2])
    page_R = table_RX[np.arange(len(at_R)), nth_R]
    with np.errstate(over="ignore"):
        k_XGMK[page_R, :, slot_R], v_XGMU[page_R, :, slot_R] = k_RGK, v_RGU
    return q_RHK
