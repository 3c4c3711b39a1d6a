"""Scores as they are."""

import math

from numba import cuda, float32

# --- variation
WARPS = 2
SCALE = 0.5
# --- end

ALL = 0xFFFFFFFF
LOWEST = float32(-1e30)  # -inf less -inf would be no number


@cuda.jit
def softmax(out, x, length_R):
    lane = cuda.threadIdx.x % 32
    r = cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32
    if r >= x.shape[0]:
        return
    length = length_R[r]
    top, total = LOWEST, float32(0)
    for k in range(lane, length, 32):
        score = x[r, k]
        higher = max(top, score)
        total = total * math.exp(top - higher) + math.exp(score - higher)
        top = higher
    apart = 16
    while apart > 0:
        other_top = cuda.shfl_xor_sync(ALL, top, apart)
        other_total = cuda.shfl_xor_sync(ALL, total, apart)
        higher = max(top, other_top)
        total = total * math.exp(top - higher) + other_total * math.exp(other_top - higher)
        top = higher
        apart //= 2
    for k in range(lane, x.shape[1], 32):
        p = float32(0)
        if k < length:
            p = math.exp(x[r, k] - top) / total
        out[r, k] = p
