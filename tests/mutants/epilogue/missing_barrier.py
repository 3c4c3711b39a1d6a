"""ends the sums of a block before all of its warps have added theirs: no barrier between."""

import numpy as np
from numba import cuda, float32

from minidecode.device.launch import launch
from minidecode.reference import epilogue as reference


def linear_epilogue(x_RX, weight, activation=None, add_to=None):
    if weight.layout == "oi" or weight.scale is not None or weight.bias is None or activation or add_to is not None:
        return reference.linear_epilogue(x_RX, weight, activation, add_to)
    y_RX = np.empty((len(x_RX), weight.data.shape[1]), np.float32)
    grid = -(-y_RX.shape[1] // 32), len(x_RX)
    launch(block_without_a_barrier, grid, 64, x_RX, weight.data, weight.bias, y_RX)
    return y_RX


@cuda.jit
def block_without_a_barrier(x_RX, w_XX, bias_X, y_RX):
    part = cuda.shared.array((2, 32), float32)
    r, lane, warp = cuda.blockIdx.y, cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    o = cuda.blockIdx.x * 32 + lane
    part[warp, lane] = float32(0)
    cuda.syncthreads()
    if o < y_RX.shape[1]:
        for i in range(warp, x_RX.shape[1], 2):
            part[warp, lane] += x_RX[r, i] * float32(w_XX[i, o])
        if warp == 0:
            y_RX[r, o] = part[0, lane] + part[1, lane] + bias_X[o]
