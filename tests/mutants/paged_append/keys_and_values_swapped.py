"""takes the values for the keys: their columns are behind them."""

import numpy as np

from minidecode.reference import paged_append


def append_paged(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R, out=None):
    first, keys, values = heads.H * heads.K, heads.G * heads.K, heads.G * heads.U
    column_X = np.r_[:first, first + values : first + values + keys, first : first + values]
    bias_X = None if bias_X is None else bias_X[column_X]
    return paged_append.append_paged(qkv_RX[:, column_X], bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R)
