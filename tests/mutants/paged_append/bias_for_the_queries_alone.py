"""writes keys and values as they come from the product, without their bias."""

from minidecode.reference import paged_append


def append_paged(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R, out=None):
    cache = k_XGMK, v_XGMU, table_RX, at_R
    q_RHK = paged_append.append_paged(qkv_RX, bias_X, heads, *cache)
    paged_append.append_paged(qkv_RX, None, heads, *cache)
    return q_RHK
