"""Activations of one number, and of pairs of gate and up: pieces of the kernels that end in an activation."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int64

from ...device.launch import launch
from ...errors import OptionError
from ...reference import empty, or_empty
from ...reference.activation import (
    GATED,
    GELU_10,
    GELU_NEW,
    LAPLACE,
    LAPLACE_DEVIATION,
    LAPLACE_MEAN,
    MISH,
    PLAIN,
    QUICK_GELU,
    RELU,
    RELU2,
    SILU,
    TANH,
    activation_code,
)
from .bias import with_bias
from .grids import grid_of_columns
from .reduction import THREADS

ZERO, HALF, ONE = float32(0), float32(0.5), float32(1)
ROOT_OF_HALF, ROOT_OF_TWO_PI = float32(math.sqrt(0.5)), float32(math.sqrt(2 / math.pi))
CUBE, QUICK = float32(0.044715), float32(0.851)
TWO, TEN, TWENTY = float32(2), float32(10), float32(20)
MEAN, PER_DEVIATION = float32(LAPLACE_MEAN), float32(1 / (LAPLACE_DEVIATION * math.sqrt(2)))


@cuda.jit(device=True)
def activate(x, code):
    """The activation of one number. Most are x/2 (1 + g(x)); see reference/activation.py. NaN stays NaN.

    erf is libdevice's: by NVIDIA's tests, which are not exhaustive, at most 2 units in the last place of a float32 off.
    """
    if code == PLAIN:
        return x
    if code == RELU:
        return ZERO if x < ZERO else x  # max(x, 0) would make 0 of NaN
    if code == TANH:
        return math.tanh(x)
    if code == RELU2:
        return ZERO if x < ZERO else x * x
    if code == LAPLACE:
        return HALF * (ONE + math.erf((x - MEAN) * PER_DEVIATION))
    if code == MISH:
        e = math.exp(TWENTY if x > TWENTY else x)
        t = e * (e + TWO)
        return x * (t / (t + TWO))
    if code == GELU_NEW:
        g = math.tanh(ROOT_OF_TWO_PI * (x + CUBE * x * x * x))
    elif code == QUICK_GELU:
        g = math.tanh(QUICK * x)
    elif code == SILU:
        g = math.tanh(HALF * x)
    else:  # GELU and GELU_10
        g = math.erf(x * ROOT_OF_HALF)
    y = HALF * x * (ONE + g)
    return TEN if code == GELU_10 and y > TEN else y


def activate_pairs(f_RX, bias_X, activation, out=None):
    """Launches `activate_pair_per_column`, which all versions take for columns that are pairs of gate and up."""
    R, F = len(f_RX), f_RX.shape[1] // 2
    out = empty(f_RX, (R, F)) if out is None else out
    bias_X, y_RF = bias_and_result(f_RX, bias_X, out)
    code = activation_code(activation) - GATED
    launch(activate_pair_per_column, grid_of_columns(F, R), THREADS, f_RX, bias_X, code, y_RF)
    return y_RF


def activate_pairs_of_product(sums_RX, bias_X, activation, add_to, out):
    """What a product whose outputs are pairs becomes: two warps of its kernel hold a pair, so a kernel ends it."""
    if add_to is None:
        return activate_pairs(sums_RX, bias_X, activation, out)
    return np.add(add_to, activate_pairs(sums_RX, bias_X, activation), out=add_to)


@cuda.jit
def activate_pair_per_column(f_RX, bias_X, code, y_RF):
    """Activates the gate of one pair, times its up, for every gridDim.y-th row.

    Grid (ceil(F / 128), blocks of rows), block 128. A thread reads 8 bytes and 8 for each of its rows, and writes 4 for
    each.
    """
    c = cuda.grid(1)
    if c < y_RF.shape[1]:
        gate, up = with_bias(float32(0), bias_X, 2 * c), with_bias(float32(0), bias_X, 2 * c + 1)
        for r in range(cuda.blockIdx.y, f_RX.shape[0], cuda.gridDim.y):
            y_RF[r, c] = activate(f_RX[r, 2 * c] + gate, code) * (f_RX[r, 2 * c + 1] + up)


def bias_and_result(f_RF, bias_F, out):
    """An empty bias where there is none, and where the result is written: `out`, or a new array beside f."""
    _refuse_other_types(f_RF)
    return or_empty(bias_F, f_RF[:, 0]), empty(f_RF, f_RF.shape) if out is None else out


def _refuse_other_types(f_RF):
    if f_RF.dtype != np.float32:
        raise OptionError(
            f"the kernels of cuda/activation.py compute in float32, not {f_RF.dtype}: activation=cpu does both"
        )


# What each kernel is compiled and type-checked for, without a GPU.
SIGNATURES = {activate_pair_per_column: [(float32[:, ::1], float32[::1], int64, float32[:, ::1])]}
