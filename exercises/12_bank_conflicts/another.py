"""No pad: each row is stored rotated by its own number, so that a column lies across all banks."""

from numba import cuda, float32

# --- variation
WIDTH = 64
# --- end

ROWS = 32


@cuda.jit
def product(out, a, w):
    tile = cuda.shared.array((ROWS, WIDTH), float32)
    weight = cuda.shared.array(WIDTH, float32)
    t, first = cuda.threadIdx.x, cuda.blockIdx.x * ROWS
    for k in range(t, WIDTH, 32):
        weight[k] = w[k]
        for r in range(ROWS):
            tile[r, (k + r) % WIDTH] = a[first + r, k]
    cuda.syncthreads()
    total = float32(0)
    for k in range(WIDTH):
        total += tile[t, (k + t) % WIDTH] * weight[k]
    out[first + t] = total
