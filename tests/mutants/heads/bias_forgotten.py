"""leaves out the bias."""

from minidecode.reference import heads as reference


def split_heads(qkv_RX, bias_X, heads, out=None):
    return reference.split_heads(qkv_RX, None, heads)
