"""Lane 0 has it, and writes its own share."""

import math

from numba import cuda, float32

# --- variation
WARPS = 2
# --- end

ALL = 0xFFFFFFFF


@cuda.jit
def below_top(out, x):
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    r = cuda.blockIdx.x * WARPS + warp
    if r >= x.shape[0]:
        return
    top = float32(-math.inf)
    for k in range(lane, x.shape[1], 32):
        top = max(top, x[r, k])
    apart = 16
    while apart > 0:
        top = max(top, cuda.shfl_down_sync(ALL, top, apart))
        apart //= 2
    if lane == 0:
        for k in range(0, x.shape[1], 32):
            out[r, k] = x[r, k] - top
