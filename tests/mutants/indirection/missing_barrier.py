"""reads what moves and writes it in one go, row by row: no barrier between the last read and the first write."""

from numba import cuda

from minidecode.device.launch import launch


def update_indirection(indirection_RT, parent_R, length_R, out=None):
    launch(redirect_without_a_barrier, indirection_RT.shape[1], len(parent_R), indirection_RT, parent_R, length_R)
    return indirection_RT


@cuda.jit
def redirect_without_a_barrier(indirection_RT, parent_R, length_R):
    t, r = cuda.blockIdx.x, cuda.threadIdx.x
    if t < length_R[r] and parent_R[r] != r:
        indirection_RT[r, t] = indirection_RT[parent_R[r], t]
