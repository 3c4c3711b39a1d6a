"""sums the row in shared memory before all threads have written their part of it: no barrier between."""

import math

import numpy as np
from numba import cuda, float32

from minidecode.device.launch import launch
from minidecode.reference import embedding as reference


def embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out=None):
    if norm.bias_D is None or wpe_ND is None:  # the mistake is one of layer norms alone
        return reference.embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out)
    x_RD, h_RD = (np.empty((len(ids_R), wte_VD.shape[1]), np.float32) for _ in range(2))
    constants = np.float32(scale), norm.gain_D, norm.bias_D, np.float32(norm.eps)
    launch(embed_without_a_barrier, len(ids_R), 64, ids_R, pos_R, wte_VD, wpe_ND, *constants, x_RD, h_RD)
    return x_RD, h_RD


@cuda.jit
def embed_without_a_barrier(ids_R, pos_R, wte_VD, wpe_ND, scale, gain_D, shift_D, eps, x_RD, h_RD):
    row = cuda.shared.array(64, float32)
    r, t, D = cuda.blockIdx.x, cuda.threadIdx.x, x_RD.shape[1]
    row[t] = float32(0)
    cuda.syncthreads()
    for d in range(t, min(D, 64), 64):
        row[d] = scale * wte_VD[ids_R[r], d] + wpe_ND[pos_R[r], d]
        x_RD[r, d] = row[d]
    total, squares = float32(0), float32(0)
    for d in range(min(D, 64)):
        total += row[d]
    mean = total / float32(D)
    for d in range(min(D, 64)):
        squares += (row[d] - mean) * (row[d] - mean)
    for d in range(t, min(D, 64), 64):
        h_RD[r, d] = (row[d] - mean) / math.sqrt(squares / float32(D) + eps) * gain_D[d] + shift_D[d]
