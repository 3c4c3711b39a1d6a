"""The lanes' largest are made one first; then each lane's sum is shrunk once, and the sums are added."""

import math

from numba import cuda, float32

# --- variation
WARPS = 2
SCALE = 0.5
# --- end


@cuda.jit
def softmax(out, x, length_R):
    r, lane = cuda.grid(1) // 32, cuda.laneid
    rows, columns = x.shape
    if r < rows:
        length = length_R[r]
        mine, total = float32(-math.inf), float32(0)
        k = lane
        while k < length:
            score = float32(SCALE) * x[r, k]
            if score > mine:
                total = total * math.exp(mine - score) + float32(1)
                mine = score
            else:
                total += math.exp(score - mine)
            k += 32
        top = mine
        for step in range(5):
            top = max(top, cuda.shfl_xor_sync(0xFFFFFFFF, top, 1 << step))
        total *= math.exp(mine - top)
        for step in range(5):
            total += cuda.shfl_xor_sync(0xFFFFFFFF, total, 1 << step)
        k = lane
        while k < columns:
            if k < length:
                out[r, k] = math.exp(float32(SCALE) * x[r, k] - top) / total
            else:
                out[r, k] = float32(0)
            k += 32
