"""Sums up in the type of the weights."""

from numba import cuda, float32, int8

# --- variation
LAYOUT = "oi"
THREADS = 64
MOST = 3
# --- end


@cuda.jit
def gemv(y, x, w, scale, x_scale, wide):
    o = cuda.grid(1)
    if o < y.shape[0]:
        total = int8(0)
        for i in range(x.shape[0]):
            weight = w[o, i] if LAYOUT == "oi" else w[i, o]
            total = int8(total + x[i] * weight)
        y[o] = float32(total) * scale[o] * x_scale


def launch_shape(outputs, inputs):
    """(blocks, threads) for so many outputs of so many inputs each."""
    return (outputs + THREADS - 1) // THREADS, THREADS
