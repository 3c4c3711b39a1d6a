"""writes every row into the page of the first."""

import numpy as np

from minidecode.reference import paged_append


def append_paged(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R, out=None):
    table_RX = np.tile(table_RX[:1], (len(at_R), 1))
    return paged_append.append_paged(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R)
