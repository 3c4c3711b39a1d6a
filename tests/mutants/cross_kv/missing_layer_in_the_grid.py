"""launches its kernel without an axis for the layers: the first gets its keys and values, the others none."""

import numpy as np
from numba import cuda

from minidecode.device.launch import launch
from minidecode.reference import cross_kv
from minidecode.reference.linear import linear


def project_cross_kv(h_RD, weight, heads, out=None):
    kv_RX = linear(h_RD, weight)
    both = cross_kv.result_arrays(kv_RX, weight, heads, None)
    for a in both:
        a.fill(0)
    bias_X = np.zeros_like(kv_RX[0]) if weight.bias is None else weight.bias
    k_SRX, v_SRX = (a.reshape(*a.shape[:2], -1) for a in both)
    blocks = -(-(k_SRX.shape[2] + v_SRX.shape[2]) // 32)
    launch(arrange_first, (len(h_RD), blocks), 32, kv_RX, bias_X, k_SRX, v_SRX)
    return both


@cuda.jit
def arrange_first(kv_RX, bias_X, k_SRX, v_SRX):
    r, x, s = cuda.blockIdx.x, cuda.blockIdx.y * 32 + cuda.threadIdx.x, cuda.blockIdx.z
    values, width = k_SRX.shape[2], k_SRX.shape[2] + v_SRX.shape[2]
    if x >= width:
        return
    number = kv_RX[r, s * width + x] + bias_X[s * width + x]
    if x < values:
        k_SRX[s, r, x] = number
    else:
        v_SRX[s, r, x - values] = number
