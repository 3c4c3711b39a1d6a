"""Every thread goes through all places of an array of its own."""

import math

from numba import cuda, float32

# --- variation
WIDTH = 100
THREADS = 32
EPS = 1e-05
# --- end

EACH = (WIDTH + THREADS - 1) // THREADS


@cuda.jit(device=True)
def block_sum(part, mine):
    """The sum of `mine` over the block, for every thread; `part` has a place for each."""
    t = cuda.threadIdx.x
    part[t] = mine
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if t < half:
            part[t] += part[t + half]
        cuda.syncthreads()
        half //= 2
    total = part[0]
    cuda.syncthreads()  # everybody has read it before the next sum writes
    return total


@cuda.jit
def layer_norm(out, x, gain, shift):
    part = cuda.shared.array(THREADS, float32)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    row = cuda.local.array(EACH, float32)
    total = float32(0)
    for d in range(t, WIDTH, THREADS):
        row[d // THREADS] = x[r, d]
        total += x[r, d]
    mean = block_sum(part, total) / float32(WIDTH)
    squares = float32(0)
    for k in range(EACH):
        squares += (row[k] - mean) * (row[k] - mean)
    spread = math.sqrt(block_sum(part, squares) / float32(WIDTH) + float32(EPS))
    for d in range(t, WIDTH, THREADS):
        out[r, d] = (row[d // THREADS] - mean) / spread * gain[d] + shift[d]
