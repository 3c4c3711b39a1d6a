"""Two barriers to each level."""

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
    left = THREADS
    while left > 1:
        half = (left + 1) // 2
        other = float32(0)
        if t + half < left:
            other = part[t + half]
        cuda.syncthreads()
        part[t] += other
        cuda.syncthreads()
        left = half
    if t == 0:
        out[r] = part[0]
