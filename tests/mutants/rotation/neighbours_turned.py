"""turns neighbouring numbers of a head together; the halves of a head belong together."""

import numpy as np

from minidecode.reference import rotation as reference


def rotate_heads(qkv_RX, bias_X, heads, pos_R, turns_NK, out=None):
    y_RX = qkv_RX + (0 if bias_X is None else bias_X)
    turned, R = (heads.H + heads.G) * heads.K, len(y_RX)
    x_RHK = y_RX[:, :turned].reshape(R, -1, heads.K)
    halves_RHK = np.concatenate([x_RHK[..., 0::2], x_RHK[..., 1::2]], axis=-1)
    y_RX[:, :turned] = halves_RHK.reshape(R, turned)
    y_RX = reference.rotate_heads(y_RX, None, heads, pos_R, turns_NK)
    halves_RHK = y_RX[:, :turned].reshape(R, -1, heads.K)
    back_RHK = np.stack(np.split(halves_RHK, 2, axis=-1), axis=-1)
    y_RX[:, :turned] = back_RHK.reshape(R, turned)
    return y_RX
