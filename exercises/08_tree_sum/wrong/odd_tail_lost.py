"""Halves, rounded down."""

from numba import cuda, float32

# --- variation
THREADS = 96
# --- end


@cuda.jit
def total(out, a):
    part = cuda.shared.array(THREADS, float32)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    mine = float32(0)
    for k in range(t, a.shape[1], THREADS):
        mine += a[r, k]
    part[t] = mine
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if t < half:
            part[t] += part[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[r] = part[0]
