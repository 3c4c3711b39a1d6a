"""puts the heads in front of the rows and says that they are behind them."""

from minidecode.reference import heads as reference


def split_heads(qkv_RX, bias_X, heads, out=None):
    return tuple(part.transpose(1, 0, 2).reshape(part.shape) for part in reference.split_heads(qkv_RX, bias_X, heads))
