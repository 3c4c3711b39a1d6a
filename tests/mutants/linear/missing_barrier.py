"""adds up what the warps of a block have found before all of them have written it: no barrier between."""

import numpy as np
from numba import cuda, float32

from minidecode.device.launch import launch
from minidecode.reference import linear as reference


def linear(x_RX, weight):
    if weight.layout == "oi" or weight.scale is not None:
        return reference.linear(x_RX, weight)
    y_RX = np.empty((len(x_RX), weight.data.shape[1]), np.float32)
    launch(block_without_a_barrier, (-(-y_RX.shape[1] // 32), len(x_RX)), 64, x_RX, weight.data, y_RX)
    return y_RX


@cuda.jit
def block_without_a_barrier(x_RX, w_XX, y_RX):
    part = cuda.shared.array((2, 32), float32)
    r, lane, warp = cuda.blockIdx.y, cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    o = cuda.blockIdx.x * 32 + lane
    part[warp, lane] = float32(0)
    cuda.syncthreads()
    if o < y_RX.shape[1]:
        for i in range(warp, x_RX.shape[1], 2):
            part[warp, lane] += x_RX[r, i] * float32(w_XX[i, o])
        if warp == 0:
            y_RX[r, o] = part[0, lane] + part[1, lane]
