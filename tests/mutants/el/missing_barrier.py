"""reads the tile of hidden states before all threads have staged their parts of it: no barrier between."""

import math

import numpy as np
from numba import cuda, float32

from minidecode.device.launch import launch
from minidecode.reference.common.hidden_states import multiply_by_group, repeat_for_query_heads

ROOM = 2048


def attend_el(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale, out=None):
    el_q_RHD = multiply_by_group(q_RHK, w_k_GKD) * np.float32(scale)
    (R, H, _), sums_RHD = el_q_RHD.shape, np.empty_like(el_q_RHD)
    launch(sums_without_a_barrier, (R, H), 64, el_q_RHD, h_BND, begin_B, sums_RHD)
    a_RHU = multiply_by_group(sums_RHD, w_v_GUD.transpose(0, 2, 1)) + repeat_for_query_heads(b_v_GU, H)
    return a_RHU.reshape(R, -1)


@cuda.jit
def sums_without_a_barrier(el_q_RHD, h_BND, begin_B, sums_RHD):
    tile = cuda.shared.array(ROOM, float32)
    r, h, D = cuda.blockIdx.x, cuda.blockIdx.y, h_BND.shape[2]
    b = r // (el_q_RHD.shape[0] // h_BND.shape[0])
    running_max, running_sum = float32(-np.inf), float32(0)
    for d in range(cuda.threadIdx.x, D, cuda.blockDim.x):
        sums_RHD[r, h, d] = float32(0)
    for n in range(begin_B[b], h_BND.shape[1]):
        for d in range(cuda.threadIdx.x, D, cuda.blockDim.x):
            tile[d] = float32(h_BND[b, n, d])
        score = float32(0)
        for d in range(D):
            score += el_q_RHD[r, h, d] * tile[d]
        cuda.syncthreads()
        shrink = math.exp(running_max - max(running_max, score))
        running_max = max(running_max, score)
        weight = math.exp(score - running_max)
        running_sum = running_sum * shrink + weight
        for d in range(cuda.threadIdx.x, D, cuda.blockDim.x):
            sums_RHD[r, h, d] = sums_RHD[r, h, d] * shrink + weight * tile[d]
    for d in range(cuda.threadIdx.x, D, cuda.blockDim.x):
        sums_RHD[r, h, d] /= running_sum
