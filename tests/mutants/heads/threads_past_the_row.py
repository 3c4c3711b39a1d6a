"""lets all threads of a block write, those behind the end of the row too."""

import numpy as np
from numba import cuda

from minidecode.device.launch import launch


def split_heads(qkv_RX, bias_X, heads, out=None):
    (R, X), G = qkv_RX.shape, heads.G
    shapes = (R, heads.H, heads.K), (R, G, heads.K), (R, G, heads.U)
    parts = [np.empty(shape, np.float32) for shape in shapes]
    bias_X = np.zeros(X, np.float32) if bias_X is None else bias_X
    launch(cut_without_an_end, (R, -(-X // 32)), 32, qkv_RX, bias_X, *(part.reshape(R, -1) for part in parts))
    return tuple(parts)


@cuda.jit
def cut_without_an_end(qkv_RX, bias_X, q_RX, k_RX, v_RX):
    r, x = cuda.blockIdx.x, cuda.blockIdx.y * 32 + cuda.threadIdx.x
    keys = q_RX.shape[1]
    values = keys + k_RX.shape[1]
    number = qkv_RX[r, x] + bias_X[x]
    if x < keys:
        q_RX[r, x] = number
    elif x < values:
        k_RX[r, x - keys] = number
    else:
        v_RX[r, x - values] = number
