"""merges what the warps of a block have found before all of them have written it: no barrier between."""

import math

import numpy as np
from numba import cuda, float32

from minidecode.device.launch import launch


def attend_split(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None):
    a_RX = np.empty((len(q_RHK), q_RHK.shape[1] * v_RGTU.shape[3]), np.float32)
    prompt, own = (prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B), (k_RGTK, v_RGTU, begin_R, end_R)
    launch(merged_too_early, q_RHK.shape[:2], 64, q_RHK, *prompt, *own, np.float32(scale), a_RX)
    return a_RX


@cuda.jit
def merged_too_early(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, a_RX):
    """The first warp has the prompt, the second what the row has generated; each lane a number of the values."""
    found = cuda.shared.array((2, 512), float32)
    state = cuda.shared.array((2, 2), float32)
    (B, G, N, _), H, U = prompt_k_BGNK.shape, q_RHK.shape[1], v_RGTU.shape[3]
    r, h, warp, lane = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    b, g = r // (q_RHK.shape[0] // B), h // (H // G)
    k_MK, v_MU, begin, end = prompt_k_BGNK[b, g], prompt_v_BGNU[b, g], prompt_begin_B[b], N
    if warp == 1:
        k_MK, v_MU, begin, end = k_RGTK[r, g], v_RGTU[r, g], begin_R[r], end_R[r]
    running_max, running_sum = float32(-3e38), float32(0)
    for u in range(lane, U, 32):
        found[warp, u] = float32(0)
    for m in range(begin, end):
        score = float32(0)
        for d in range(q_RHK.shape[2]):
            score += q_RHK[r, h, d] * float32(k_MK[m, d])
        larger = max(running_max, scale * score)
        keep, weight = math.exp(running_max - larger), math.exp(scale * score - larger)
        running_max, running_sum = larger, running_sum * keep + weight
        for u in range(lane, U, 32):
            found[warp, u] = found[warp, u] * keep + weight * float32(v_MU[m, u])
    if lane == 0:
        state[warp, 0], state[warp, 1] = running_max, running_sum
    if warp == 1:  # here a barrier is missing, before this
        larger = max(state[0, 0], state[1, 0])
        first, second = math.exp(state[0, 0] - larger), math.exp(state[1, 0] - larger)
        total = first * state[0, 1] + second * state[1, 1]
        for u in range(lane, U, 32):
            a_RX[r, h * U + u] = (first * found[0, u] + second * found[1, u]) / total
