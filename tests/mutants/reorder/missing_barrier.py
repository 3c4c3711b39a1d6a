"""reads what moves and writes it in one loop, row by row: no barrier between the last read and the first write."""

from numba import cuda

from minidecode.device.launch import launch


def reorder_cache(k_RGMX, parent_R, length_R, out=None):
    R, _, M, _ = k_RGMX.shape
    launch(move_without_a_barrier, M, R, k_RGMX, parent_R, length_R)
    return k_RGMX


@cuda.jit
def move_without_a_barrier(k_RGMX, parent_R, length_R):
    m, r = cuda.blockIdx.x, cuda.threadIdx.x
    if m < length_R[r] and parent_R[r] != r:
        for g in range(k_RGMX.shape[1]):
            for x in range(k_RGMX.shape[3]):
                k_RGMX[r, g, m, x] = k_RGMX[parent_R[r], g, m, x]
