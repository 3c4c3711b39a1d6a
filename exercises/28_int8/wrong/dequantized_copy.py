"""Makes the weights float32 first."""

from numba import cuda, float32

# --- variation
LAYOUT = "oi"
THREADS = 64
MOST = 3
# --- end


@cuda.jit
def gemv(y, x, w, scale, x_scale, wide):
    o = cuda.grid(1)
    if o < y.shape[0]:
        for i in range(x.shape[0]):
            if LAYOUT == "oi":
                wide[o, i] = float32(w[o, i]) * scale[o]
            else:
                wide[i, o] = float32(w[i, o]) * scale[o]
        total = float32(0)
        for i in range(x.shape[0]):
            if LAYOUT == "oi":
                total += float32(x[i]) * wide[o, i]
            else:
                total += float32(x[i]) * wide[i, o]
        y[o] = total * x_scale


def launch_shape(outputs, inputs):
    """(blocks, threads) for so many outputs of so many inputs each."""
    return (outputs + THREADS - 1) // THREADS, THREADS
