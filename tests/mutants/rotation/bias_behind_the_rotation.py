"""adds the bias to what has been turned; it belongs to the product."""

from minidecode.reference import rotation as reference


def rotate_heads(qkv_RX, bias_X, heads, pos_R, turns_NK, out=None):
    y_RX = reference.rotate_heads(qkv_RX, None, heads, pos_R, turns_NK)
    return y_RX if bias_X is None else y_RX + bias_X
