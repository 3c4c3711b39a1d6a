"""The rows, where columns are counted too."""

from numba import cuda

# --- variation
ACROSS = 8
DOWN = 4
FACTOR = 3
# --- end


@cuda.jit
def scale(out, a):
    x, y = cuda.grid(2)
    if y < a.shape[0] and x < a.shape[0]:
        out[y, x] = FACTOR * a[y, x]
