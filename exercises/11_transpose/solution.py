"""A tile in shared memory does the turning: rows are read, and rows are written."""

from numba import cuda, float32

# --- variation
TILE = 16
# --- end


@cuda.jit
def transpose(out, a):
    # --- your turn: right, but wasteful: make it move fewer sectors
    #| x, y = cuda.grid(2)
    #| if y < a.shape[0] and x < a.shape[1]:
    #|     out[x, y] = a[y, x]
    tile = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.blockIdx.x * TILE + tx, cuda.blockIdx.y * TILE + ty
    if y < a.shape[0] and x < a.shape[1]:
        tile[ty, tx] = a[y, x]
    cuda.syncthreads()
    x, y = cuda.blockIdx.y * TILE + tx, cuda.blockIdx.x * TILE + ty
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] = tile[tx, ty]
    # --- end
