"""asks no thread whether its column exists: the last block writes beyond the row."""

import numpy as np
from numba import cuda, float32

from minidecode.device.launch import launch
from minidecode.reference import activation as reference


def bias_activation(f_RF, bias_F, activation, out=None):
    if activation != "relu":
        return reference.bias_activation(f_RF, bias_F, activation)
    bias_F = np.zeros(f_RF.shape[1], np.float32) if bias_F is None else bias_F
    out_RF = np.empty_like(f_RF)
    launch(relu_without_a_guard, (-(-f_RF.shape[1] // 32), len(f_RF)), 32, f_RF, bias_F, out_RF)
    return out_RF


@cuda.jit
def relu_without_a_guard(f_RF, bias_F, out_RF):
    r, c = cuda.blockIdx.y, cuda.grid(1)
    x = f_RF[r, c] + bias_F[c]
    out_RF[r, c] = float32(0) if x < float32(0) else x
