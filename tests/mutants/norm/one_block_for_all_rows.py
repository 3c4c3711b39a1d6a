"""launches a single block with a thread per row: a block has 1,024 threads, and rows beyond are left as they were."""

import math

import numpy as np
from numba import cuda, float32

from minidecode.device.launch import launch
from minidecode.reference import norm as reference
from minidecode.reference.norm import _residual


def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    if norm.bias_D is None:  # the mistake is one of layer norms alone
        return reference.residual_norm(x_RD, y_RD, bias_D, norm, out)
    out_x, out_h = out or (None, None)
    x_RD = _residual(x_RD, y_RD, bias_D, out_x)
    h_RD = np.zeros_like(x_RD) if out_h is None else out_h
    launch(normalise_a_row, 1, min(len(x_RD), 1024), x_RD, norm.gain_D, norm.bias_D, np.float32(norm.eps), h_RD)
    return x_RD, h_RD


@cuda.jit
def normalise_a_row(x_RD, gain_D, bias_D, eps, h_RD):
    r, D = cuda.threadIdx.x, x_RD.shape[1]
    total, squares = float32(0), float32(0)
    for d in range(D):
        total += x_RD[r, d] - x_RD[r, 0]
    mean = x_RD[r, 0] + total / float32(D)
    for d in range(D):
        squares += (x_RD[r, d] - mean) * (x_RD[r, d] - mean)
    spread = math.sqrt(squares / float32(D) + eps)
    for d in range(D):
        h_RD[r, d] = (x_RD[r, d] - mean) / spread * gain_D[d] + bias_D[d]
