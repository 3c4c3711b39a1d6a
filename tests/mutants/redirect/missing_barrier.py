"""reads what moves and writes it in one go, row by row: no barrier between the last read and the first write."""

from numba import cuda

from minidecode.launch import launch


def redirect(source_RT, parent_R, length_R, out=None):
    launch(redirect_without_a_barrier, source_RT.shape[1], len(parent_R), source_RT, parent_R, length_R)
    return source_RT


@cuda.jit
def redirect_without_a_barrier(source_RT, parent_R, length_R):
    t, r = cuda.blockIdx.x, cuda.threadIdx.x
    if t < length_R[r] and parent_R[r] != r:
        source_RT[r, t] = source_RT[parent_R[r], t]
