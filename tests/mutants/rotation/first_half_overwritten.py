"""turns the second half with the first half as it is after it was turned."""

import numpy as np


def rotate_heads(qkv_RX, bias_X, heads, pos_R, turns_NK, out=None):
    y_RX = qkv_RX + (0 if bias_X is None else bias_X)
    half, turned = heads.K // 2, (heads.H + heads.G) * heads.K
    x_RHK, turn_R1K = y_RX[:, :turned].reshape(len(y_RX), -1, heads.K).copy(), turns_NK[pos_R][:, None]
    a, b, cos, sin = x_RHK[..., :half], x_RHK[..., half:], turn_R1K[..., :half], turn_R1K[..., half:]
    a[...] = a * cos - b * sin
    b[...] = b * cos + a * sin
    return np.concatenate([x_RHK.reshape(len(y_RX), turned), y_RX[:, turned:]], axis=1)
