"""adds up the threads' parts before all threads have written theirs: no barrier between."""

import math

import numpy as np
from numba import cuda, float32

from minidecode.device.launch import launch


def attend_rolling(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    (R, H, _), U = q_RHK.shape, v_RGMU.shape[3]
    a_RX = np.empty((R, H * U), np.float32)
    launch(slots_without_a_barrier, (R, H), 64, q_RHK, k_RGMK, v_RGMU, begin_R, end_R, np.float32(scale), a_RX)
    return a_RX


@cuda.jit
def slots_without_a_barrier(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, a_RX):
    weights = cuda.shared.array(256, float32)
    (_, H, K), (_, G, M, U) = q_RHK.shape, v_RGMU.shape
    r, h, t = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    g = h // (H // G)
    for slot in range(t, M, 64):
        score = float32(0)
        for d in range(K):
            score += q_RHK[r, h, d] * k_RGMK[r, g, slot, d]
        age = (end_R[r] - 1 - slot) % M
        weights[slot] = math.exp(scale * score) if age < end_R[r] - begin_R[r] else float32(0)
    total = float32(0)
    for slot in range(M):
        total += weights[slot]
    for u in range(t, U, 64):
        a = float32(0)
        for slot in range(M):
            a += weights[slot] * v_RGMU[r, g, slot, u]
        a_RX[r, h * U + u] = a / total
