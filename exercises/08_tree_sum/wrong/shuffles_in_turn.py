"""One lane after the other: what each holds is added to the sum."""

from numba import cuda, float32

# --- variation
THREADS = 96
# --- end


@cuda.jit
def total(out, a):
    part = cuda.shared.array(4, float32)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    mine = float32(0)
    for k in range(t, a.shape[1], THREADS):
        mine += a[r, k]
    whole = float32(0)
    for lane in range(min(32, THREADS - t // 32 * 32)):
        whole += cuda.shfl_sync(0xFFFFFFFF, mine, lane)
    if t % 32 == 0:
        part[t // 32] = whole
    cuda.syncthreads()
    if t == 0:
        whole = float32(0)
        for warp in range((THREADS + 31) // 32):
            whole += part[warp]
        out[r] = whole
