"""A module of device functions, asked for by attribute."""

from numba import cuda


@cuda.jit(device=True)
def neighbour(s):
    return s[(cuda.threadIdx.x + 1) % 4]


@cuda.jit(device=True)
def twice_plus_one(x):
    return x * 2 + 1
