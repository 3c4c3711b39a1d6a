"""Down to lane 0, and from there to all; a lane without a number repeats the row's last one."""

from numba import cuda

# --- variation
WARPS = 2
# --- end


@cuda.jit(device=True)
def larger(a, b):
    return a if a > b else b


@cuda.jit
def below_top(out, x):
    rows, columns = x.shape
    r, lane = cuda.grid(1) // 32, cuda.laneid
    if r < rows:
        top = x[r, min(lane, columns - 1)]
        for k in range(lane + 32, columns, 32):
            top = larger(top, x[r, k])
        for step in range(5):
            top = larger(top, cuda.shfl_down_sync(0xFFFFFFFF, top, 16 >> step))
        top = cuda.shfl_sync(0xFFFFFFFF, top, 0)
        for k in range(lane, columns, 32):
            out[r, k] = x[r, k] - top
