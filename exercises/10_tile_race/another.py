"""Two tiles take turns: while one is read, the other is filled, and one barrier a round is enough."""

from numba import cuda, int32

# --- variation
TILE = 96
SHIFT = 5
# --- end


@cuda.jit
def rotate(out, a):
    even = cuda.shared.array(TILE, int32)
    odd = cuda.shared.array(TILE, int32)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    for turn in range(a.shape[1] // TILE):
        i = turn * TILE + t
        if turn % 2 == 0:
            even[t] = a[r, i]
        else:
            odd[t] = a[r, i]
        cuda.syncthreads()
        if turn % 2 == 0:
            out[r, i] = even[(t + SHIFT) % TILE]
        else:
            out[r, i] = odd[(t + SHIFT) % TILE]
