"""Each thread keeps its numbers in an array of its own, less the row's first, and both sums are taken at once."""

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
    mine = cuda.local.array(EACH, float32)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    first = x[r, 0]
    total, squares = float32(0), float32(0)
    for k in range(EACH):
        if t + k * THREADS < WIDTH:
            mine[k] = x[r, t + k * THREADS] - first
            total += mine[k]
            squares += mine[k] * mine[k]
    mean = block_sum(part, total) / float32(WIDTH)
    variance = block_sum(part, squares) / float32(WIDTH) - mean * mean
    scale = float32(1) / math.sqrt(variance + float32(EPS))
    for k in range(EACH):
        d = t + k * THREADS
        if d < WIDTH:
            out[r, d] = (mine[k] - mean) * scale * gain[d] + shift[d]
