"""Whole rounds only."""

from numba import cuda, float32

# --- variation
THREADS = 96
# --- end


@cuda.jit
def total(out, a):
    part = cuda.shared.array(THREADS, float32)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    mine = float32(0)
    for k in range(a.shape[1] // THREADS):
        mine += a[r, k * THREADS + t]
    part[t] = mine
    cuda.syncthreads()
    left = THREADS
    while left > 1:
        half = (left + 1) // 2
        if t + half < left:
            part[t] += part[t + half]
        cuda.syncthreads()
        left = half
    if t == 0:
        out[r] = part[0]
