"""The guard lets through what lies in the array, and nothing else."""

from numba import cuda

# --- variation
ACROSS = 8
DOWN = 4
FACTOR = 3
# --- end


@cuda.jit
def scale(out, a):
    x, y = cuda.grid(2)
    # --- was
    #| if y <= a.shape[0] and x <= a.shape[1]:
    if y < a.shape[0] and x < a.shape[1]:
        # --- end
        out[y, x] = FACTOR * a[y, x]
