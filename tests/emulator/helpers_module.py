"""A module of device functions, asked for by attribute."""

from numba import cuda


@cuda.jit(device=True)
def neighbour(s):
    return s[(cuda.threadIdx.x + 1) % 4]
