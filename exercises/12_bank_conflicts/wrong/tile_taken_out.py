"""Each thread reads its own row."""

from numba import cuda, float32

# --- variation
WIDTH = 64
# --- end

ROWS = 32  # a block has a thread for each of its rows


@cuda.jit
def product(out, a, w):
    weight = cuda.shared.array(WIDTH, float32)
    t, first = cuda.threadIdx.x, cuda.blockIdx.x * ROWS
    for k in range(t, WIDTH, 32):
        weight[k] = w[k]
    cuda.syncthreads()
    total = float32(0)
    for k in range(WIDTH):
        total += a[first + t, k] * weight[k]
    out[first + t] = total
