"""No tile: the warp goes through the rows, and the lanes' products are added up by shuffles."""

from numba import cuda, float32

# --- variation
WIDTH = 64
# --- end

ROWS = 32


@cuda.jit
def product(out, a, w):
    weight = cuda.shared.array(WIDTH, float32)
    t, first = cuda.threadIdx.x, cuda.blockIdx.x * ROWS
    for k in range(t, WIDTH, 32):
        weight[k] = w[k]
    cuda.syncthreads()
    mine = float32(0)
    for r in range(ROWS):
        total = float32(0)
        for k in range(t, WIDTH, 32):
            total += a[first + r, k] * weight[k]
        for apart in (16, 8, 4, 2, 1):
            total += cuda.shfl_xor_sync(0xFFFFFFFF, total, apart)
        if t == r:
            mine = total
    out[first + t] = mine
