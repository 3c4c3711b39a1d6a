"""No tile, no race."""

from numba import cuda

# --- variation
TILE = 96
SHIFT = 5
# --- end


@cuda.jit
def rotate(out, a):
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    for first in range(0, a.shape[1], TILE):
        out[r, first + t] = a[r, first + (t + SHIFT) % TILE]
