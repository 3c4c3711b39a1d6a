"""adds up the threads' parts before all threads have written theirs: no barrier between."""

import math

import numpy as np
from numba import cuda, float32

from minidecode.device.launch import launch


def attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale):
    (R, H, _), U = q_RHK.shape, v_XGMU.shape[3]
    a_RX = np.empty((R, H * U), np.float32)
    cache = k_XGMK, v_XGMU, table_RX, begin_R, end_R
    launch(attend_without_a_barrier, (R, H), 32, q_RHK, *cache, np.float32(scale), a_RX)
    return a_RX


@cuda.jit
def attend_without_a_barrier(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, a_RX):
    weights = cuda.shared.array(512, float32)
    (_, H, K), (_, G, M, U) = q_RHK.shape, v_XGMU.shape
    r, h, thread = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    g = h // (H // G)
    for m in range(begin_R[r] + thread, end_R[r], 32):
        score = float32(0)
        for d in range(K):
            score += q_RHK[r, h, d] * k_XGMK[table_RX[r, m // M], g, m % M, d]
        weights[m] = math.exp(scale * score)
    for u in range(thread, U, 32):
        a, total = float32(0), float32(0)
        for m in range(begin_R[r], end_R[r]):
            a += weights[m] * v_XGMU[table_RX[r, m // M], g, m % M, u]
            total += weights[m]
        a_RX[r, h * U + u] = a / total
