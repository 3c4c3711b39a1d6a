"""writes slot at[r] of the first page, cut off at its end: forgets that a table has several pages."""

import numpy as np

from minidecode.reference import paged_append


def append_paged(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R, out=None):
    at_R = np.minimum(at_R, k_XGMK.shape[2] - 1)
    return paged_append.append_paged(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R)
