"""The tile is stored turned, in one flat array with a pad to each row; threads number themselves."""

from numba import cuda, float32

# --- variation
TILE = 16
# --- end

PITCH = TILE + 1
ROOM = TILE * (TILE + 1)


@cuda.jit
def transpose(out, a):
    turned = cuda.shared.array(ROOM, float32)
    rows, columns = a.shape
    me = cuda.threadIdx.y * TILE + cuda.threadIdx.x
    i, j = me // TILE, me % TILE
    top, left = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
    if top + i < rows and left + j < columns:
        turned[j * PITCH + i] = a[top + i, left + j]
    cuda.syncthreads()
    if left + i < columns and top + j < rows:
        out[left + i, top + j] = turned[i * PITCH + j]
