"""takes the sine with the other sign: the second half is taken off where it is to be added."""

import numpy as np

from minidecode.reference import rotation as reference


def rotate_heads(qkv_RX, bias_X, heads, pos_R, turns_NK, out=None):
    half = heads.K // 2
    turns_NK = np.concatenate([turns_NK[:, :half], -turns_NK[:, half:]], axis=1)
    return reference.rotate_heads(qkv_RX, bias_X, heads, pos_R, turns_NK)
