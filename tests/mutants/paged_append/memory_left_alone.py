"""cuts the heads and gives back the queries; the pages never hear of the new position."""

from minidecode.reference.heads import split_heads


def append_paged(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R, out=None):
    return split_heads(qkv_RX, bias_X, heads)[0]
