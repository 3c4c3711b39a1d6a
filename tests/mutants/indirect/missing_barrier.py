"""adds up the threads' parts before all threads have written theirs: no barrier between."""

import math

import numpy as np
from numba import cuda, float32

from minidecode.device.launch import launch


def attend_indirect(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R, scale
):
    (R, H, _), U = q_RHK.shape, v_RGTU.shape[3]
    a_RX = np.empty((R, H * U), np.float32)
    cache = prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R
    launch(attend_without_a_barrier, (R, H), 32, q_RHK, *cache, np.float32(scale), a_RX)
    return a_RX


@cuda.jit
def attend_without_a_barrier(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R, scale, a_RX
):
    weights = cuda.shared.array(512, float32)
    (R, H, K), (B, G, N, U) = q_RHK.shape, prompt_v_BGNU.shape
    r, h, thread = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    b, g = r // (R // B), h // (H // G)
    for n in range(prompt_begin_B[b] + thread, N, 32):
        score = float32(0)
        for d in range(K):
            score += q_RHK[r, h, d] * prompt_k_BGNK[b, g, n, d]
        weights[n] = math.exp(scale * score)
    for t in range(begin_R[r] + thread, end_R[r], 32):
        score = float32(0)
        for d in range(K):
            score += q_RHK[r, h, d] * k_RGTK[indirection_RT[r, t], g, t, d]
        weights[N + t] = math.exp(scale * score)
    for u in range(thread, U, 32):
        a, total = float32(0), float32(0)
        for n in range(prompt_begin_B[b], N):
            a += weights[n] * prompt_v_BGNU[b, g, n, u]
            total += weights[n]
        for t in range(begin_R[r], end_R[r]):
            a += weights[N + t] * v_RGTU[indirection_RT[r, t], g, t, u]
            total += weights[N + t]
        a_RX[r, h * U + u] = a / total
