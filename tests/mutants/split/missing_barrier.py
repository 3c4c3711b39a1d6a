"""goes on to a row's own positions while other threads still sum those of the prompt: no barrier between."""

import math

import numpy as np
from numba import cuda, float32

from minidecode.device.launch import launch


def attend_split(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None):
    a_RX = np.empty((len(q_RHK), q_RHK.shape[1] * v_RGTU.shape[3]), np.float32)
    prompt, own = (prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B), (k_RGTK, v_RGTU, begin_R, end_R)
    arrays = q_RHK, *prompt, *own, np.float32(scale), a_RX
    launch(split_without_a_barrier, q_RHK.shape[0] * q_RHK.shape[1], 64, *arrays)
    return a_RX


@cuda.jit
def split_without_a_barrier(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, a_RX
):
    scores = cuda.shared.array(64, float32)
    (B, G, N, _), H, U = prompt_k_BGNK.shape, q_RHK.shape[1], v_RGTU.shape[3]
    r, h, t = cuda.blockIdx.x // H, cuda.blockIdx.x % H, cuda.threadIdx.x
    b, g = r // (q_RHK.shape[0] // B), h // (H // G)
    for u in range(t, U, 64):
        a_RX[r, h * U + u] = float32(0)
    running_max, running_sum = float32(-np.inf), float32(0)
    for part in range(2):
        k_MK, v_MU, begin, end = prompt_k_BGNK[b, g], prompt_v_BGNU[b, g], prompt_begin_B[b], N
        if part == 1:
            k_MK, v_MU, begin, end = k_RGTK[r, g], v_RGTU[r, g], begin_R[r], end_R[r]
        for first in range(begin, end, 64):
            if first + t < end:
                score = float32(0)
                for d in range(q_RHK.shape[2]):
                    score += q_RHK[r, h, d] * k_MK[first + t, d]
                scores[t] = scale * score
            cuda.syncthreads()
            larger = running_max
            for j in range(min(64, end - first)):
                larger = max(larger, scores[j])
            keep = math.exp(running_max - larger)
            running_sum *= keep
            for j in range(min(64, end - first)):
                running_sum += math.exp(scores[j] - larger)
            for u in range(t, U, 64):
                a_RX[r, h * U + u] *= keep
                for j in range(min(64, end - first)):
                    a_RX[r, h * U + u] += math.exp(scores[j] - larger) * v_MU[first + j, u]
            running_max = larger
            # here a barrier is missing
    for u in range(t, U, 64):
        a_RX[r, h * U + u] /= running_sum
