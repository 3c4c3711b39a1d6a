"""reads the staged keys of other threads before they have written them: no barrier between."""

import math

import numpy as np
from numba import cuda, float32

from minidecode.device.launch import launch


def attend_shared(q_RHK, k_BGNK, v_BGNU, begin_B, scale, out=None):
    a_RX = np.empty((len(q_RHK), q_RHK.shape[1] * v_BGNU.shape[3]), np.float32)
    arrays = q_RHK, k_BGNK, v_BGNU, begin_B, np.float32(scale), a_RX
    launch(shared_without_a_barrier, q_RHK.shape[0] * q_RHK.shape[1], 32, *arrays)
    return a_RX


@cuda.jit
def shared_without_a_barrier(q_RHK, k_BGNK, v_BGNU, begin_B, scale, a_RX):
    key = cuda.shared.array(256, float32)
    (B, G, N, K), H, U = k_BGNK.shape, q_RHK.shape[1], v_BGNU.shape[3]
    r, h, t = cuda.blockIdx.x // H, cuda.blockIdx.x % H, cuda.threadIdx.x
    b, g = r // (q_RHK.shape[0] // B), h // (H // G)
    for d in range(t, 256, 32):
        key[d] = float32(0)
    cuda.syncthreads()
    for u in range(t, U, 32):
        a_RX[r, h * U + u] = float32(0)
    running_max, running_sum = float32(-np.inf), float32(0)
    for n in range(begin_B[b], N):
        for d in range(t, K, 32):
            key[d] = k_BGNK[b, g, n, d]
        score = float32(0)
        for d in range(K):
            score += q_RHK[r, h, d] * key[d]
        larger = max(running_max, scale * score)
        keep, weight = math.exp(running_max - larger), math.exp(scale * score - larger)
        running_max, running_sum = larger, running_sum * keep + weight
        for u in range(t, U, 32):
            a_RX[r, h * U + u] = a_RX[r, h * U + u] * keep + weight * v_BGNU[b, g, n, u]
        cuda.syncthreads()
    for u in range(t, U, 32):
        a_RX[r, h * U + u] /= running_sum
