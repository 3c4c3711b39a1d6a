"""Each lane fills a row of its own."""

from numba import cuda, float32

# --- variation
WIDTH = 64
# --- end

ROWS = 32  # a block has a thread for each of its rows
PITCH = WIDTH + 1


@cuda.jit
def product(out, a, w):
    tile = cuda.shared.array((ROWS, PITCH), float32)
    weight = cuda.shared.array(WIDTH, float32)
    t, first = cuda.threadIdx.x, cuda.blockIdx.x * ROWS
    for k in range(WIDTH):
        tile[t, k] = a[first + t, k]
    for k in range(t, WIDTH, 32):
        weight[k] = w[k]
    cuda.syncthreads()
    total = float32(0)
    for k in range(WIDTH):
        total += tile[t, k] * weight[k]
    out[first + t] = total
