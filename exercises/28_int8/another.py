"""A block for 32 outputs, or for one: its threads share the inputs, and add up in shared memory."""

from numba import cuda, float32, int32

# --- variation
LAYOUT = "oi"
THREADS = 64
MOST = 3
# --- end


WARPS = THREADS // 32


@cuda.jit
def gemv(y, x, w, scale, x_scale, wide):
    parts = cuda.shared.array(THREADS, int32)
    me, inputs = cuda.threadIdx.x, x.shape[0]
    total = int32(0)
    if LAYOUT == "oi":
        o = cuda.blockIdx.x
        for i in range(me, inputs, THREADS):
            total += int32(x[i]) * int32(w[o, i])
        first, count, step = 0, THREADS, 1
    else:
        o = cuda.blockIdx.x * 32 + me % 32
        if o < y.shape[0]:
            for i in range(me // 32, inputs, WARPS):
                total += int32(x[i]) * int32(w[i, o])
        first, count, step = me, WARPS, 32
    parts[me] = total
    cuda.syncthreads()
    if me < (1 if LAYOUT == "oi" else 32) and o < y.shape[0]:
        total = int32(0)
        for k in range(count):
            total += parts[first + k * step]
        y[o] = float32(total) * (scale[o] * x_scale)


def launch_shape(outputs, inputs):
    return outputs if LAYOUT == "oi" else (outputs + 31) // 32, THREADS
