"""The scale of output 0 for all."""

from numba import cuda, float32, int32

# --- variation
LAYOUT = "oi"
THREADS = 64
MOST = 3
# --- end


@cuda.jit
def gemv(y, x, w, scale, x_scale, wide):
    total = int32(0)
    if LAYOUT == "io":
        o = cuda.grid(1)
        if o < y.shape[0]:
            for i in range(x.shape[0]):
                total += int32(x[i]) * w[i, o]
            y[o] = float32(total) * scale[0] * x_scale
    else:
        o, lane = cuda.grid(1) // 32, cuda.threadIdx.x % 32
        if o < y.shape[0]:
            for i in range(lane, x.shape[0], 32):
                total += int32(x[i]) * w[o, i]
            step = 16
            while step > 0:
                total += cuda.shfl_down_sync(0xFFFFFFFF, total, step)
                step //= 2
            if lane == 0:
                y[o] = float32(total) * scale[0] * x_scale


def launch_shape(outputs, inputs):
    """(blocks, threads) for so many outputs of so many inputs each."""
    threads = outputs if LAYOUT == "io" else 32 * outputs
    return (threads + THREADS - 1) // THREADS, THREADS
