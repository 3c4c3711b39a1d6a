"""reads the warps' sums before all warps have written theirs: no barrier between."""

import math

import numpy as np
from numba import cuda, float32

from minidecode.device.launch import launch
from minidecode.reference import norm as reference


def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    if norm.bias_D is None:  # the mistake is one of layer norms alone
        return reference.residual_norm(x_RD, y_RD, bias_D, norm, out)
    summed_RD, h_RD = np.empty_like(x_RD), np.empty_like(x_RD)
    y_RD = np.zeros_like(x_RD) if y_RD is None else y_RD
    bias_D = np.zeros_like(norm.gain_D) if bias_D is None else bias_D
    arrays = x_RD, y_RD, bias_D, norm.gain_D, norm.bias_D, np.float32(norm.eps), summed_RD, h_RD
    launch(norm_without_a_barrier, len(x_RD), 128, *arrays)
    return summed_RD, h_RD


@cuda.jit
def norm_without_a_barrier(x_RD, y_RD, bias_D, gain_D, shift_D, eps, summed_RD, h_RD):
    part = cuda.shared.array(4, float32)
    r, t, D = cuda.blockIdx.x, cuda.threadIdx.x, x_RD.shape[1]
    if t < 4:
        part[t] = float32(0)
    cuda.syncthreads()
    total = float32(0)
    for d in range(t, D, 128):
        summed_RD[r, d] = x_RD[r, d] + y_RD[r, d] + bias_D[d]
        total += summed_RD[r, d]
    for step in (16, 8, 4, 2, 1):
        total += cuda.shfl_xor_sync(0xFFFFFFFF, total, step)
    if t % 32 == 0:
        part[t // 32] = total
    mean = (part[0] + part[1] + part[2] + part[3]) / float32(D)
    squares = float32(0)
    for d in range(D):
        value = x_RD[r, d] + y_RD[r, d] + bias_D[d] - mean
        squares += value * value
    for d in range(t, D, 128):
        h_RD[r, d] = (summed_RD[r, d] - mean) / math.sqrt(squares / float32(D) + eps) * gain_D[d] + shift_D[d]
