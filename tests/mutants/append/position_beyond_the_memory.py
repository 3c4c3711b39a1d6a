"""counts positions from 1: the last one lies behind the cache."""

import numpy as np
from numba import cuda

from minidecode.device.launch import launch
from minidecode.reference.heads import split_heads


def append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out=None):
    q_RHK, k_RGK, v_RGU = split_heads(qkv_RX, bias_X, heads)
    for cache_RGMX, new_RGX in ((k_RGMK, k_RGK), (v_RGMU, v_RGU)):
        launch(write_behind, new_RGX.shape[:2], 1, np.ascontiguousarray(new_RGX), at_R, cache_RGMX)
    return q_RHK


@cuda.jit
def write_behind(new_RGX, at_R, cache_RGMX):
    r, g = cuda.blockIdx.x, cuda.blockIdx.y
    for x in range(new_RGX.shape[2]):
        cache_RGMX[r, g, at_R[r] + 1, x] = new_RGX[r, g, x]
