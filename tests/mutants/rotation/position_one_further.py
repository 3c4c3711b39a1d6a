"""turns each row by the angle of its right neighbour, the last position excepted."""

import numpy as np

from minidecode.reference import rotation as reference


def rotate_heads(qkv_RX, bias_X, heads, pos_R, turns_NK, out=None):
    return reference.rotate_heads(qkv_RX, bias_X, heads, np.minimum(pos_R + 1, len(turns_NK) - 1), turns_NK)
