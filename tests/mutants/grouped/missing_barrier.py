"""sums with the weights of other threads before they have written them: no barrier between."""

import math

import numpy as np
from numba import cuda, float32

from minidecode.device.launch import launch


def attend(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    a_RX = np.empty((len(q_RHK), q_RHK.shape[1] * v_RGMU.shape[3]), np.float32)
    arrays = q_RHK, k_RGMK, v_RGMU, begin_R, end_R, np.float32(scale), a_RX
    launch(attend_without_a_barrier, q_RHK.shape[0] * q_RHK.shape[1], 64, *arrays)
    return a_RX


@cuda.jit
def attend_without_a_barrier(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, a_RX):
    weights = cuda.shared.array(512, float32)
    H, G, K, U = q_RHK.shape[1], k_RGMK.shape[1], q_RHK.shape[2], v_RGMU.shape[3]
    r, h, t = cuda.blockIdx.x // H, cuda.blockIdx.x % H, cuda.threadIdx.x
    g, begin, end = h // (H // G), begin_R[r], end_R[r]
    for m in range(t, 512, 64):
        weights[m] = float32(0)
    cuda.syncthreads()
    running_max = float32(-np.inf)
    for m in range(begin, end):
        score = float32(0)
        for d in range(K):
            score += q_RHK[r, h, d] * k_RGMK[r, g, m, d]
        running_max = max(running_max, scale * score)
        if m % 64 == t:
            weights[m] = scale * score
    for u in range(t, U, 64):
        a, running_sum = float32(0), float32(0)
        for m in range(begin, end):
            weight = math.exp(weights[m] - running_max)
            a += weight * v_RGMU[r, g, m, u]
            running_sum += weight
        a_RX[r, h * U + u] = a / running_sum
