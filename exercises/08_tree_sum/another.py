"""Neighbours first, then those two apart, then four: whoever has no partner waits."""

from numba import cuda, float32

# --- variation
THREADS = 96
# --- end


@cuda.jit
def total(out, a):
    part = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    row = a[cuda.blockIdx.x]
    part[t] = float32(0)
    k = t
    while k < row.size:
        part[t] += row[k]
        k += cuda.blockDim.x
    apart = 1
    while apart < THREADS:
        cuda.syncthreads()
        if t % (2 * apart) == 0 and t + apart < THREADS:
            part[t] += part[t + apart]
        apart *= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]
