"""Reads columns, writes rows."""

from numba import cuda

# --- variation
TILE = 16
# --- end


@cuda.jit
def transpose(out, a):
    x = cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    y = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] = a[x, y]
