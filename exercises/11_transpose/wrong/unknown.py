"""Turns and negates."""

from numba import cuda

# --- variation
TILE = 16
# --- end


@cuda.jit
def transpose(out, a):
    x, y = cuda.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        out[x, y] = -a[y, x]
