"""Bias and activation in one kernel (LightSeq, section 2.1: `ker_bias_gelu`, `ker_bias_relu`).

1. A thread per number. Each divides to find its row, and loads a bias of its own.
2. A thread per column: it loads the column's bias once and walks down the rows with it, some rows apart. 1.25 loads per
   number instead of 2, and no division. Neighbouring threads still read neighbouring numbers.
3. The same with four columns to a thread, by 128-bit loads and stores: a quarter of the instructions ask for the same
   bytes. Rows must begin at multiples of 16 bytes.

Which activation it is, a whole number says. All threads take the same way through `activated`, so that the choice costs
a few comparisons beside a load that takes hundreds of cycles.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int64

from ..errors import OptionError
from ..reference import or_empty
from ..reference.activation import (
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
    code_of,
)
from ..runtime.launch import launch
from .common.bias import plus
from .common.vector_load import begins_at_16_bytes, wide_load, wide_store

THREADS = 128
ROWS = 4  # that a thread of version 2 walks down
MOST_BLOCKS = 65_535  # of a grid's second axis
ZERO, HALF, ONE = float32(0), float32(0.5), float32(1)
ROOT_OF_HALF, ROOT_OF_TWO_PI = float32(math.sqrt(0.5)), float32(math.sqrt(2 / math.pi))
CUBE, QUICK = float32(0.044715), float32(0.851)
TWO, TEN, TWENTY = float32(2), float32(10), float32(20)
MEAN, PER_DEVIATION = float32(LAPLACE_MEAN), float32(1 / (LAPLACE_DEVIATION * math.sqrt(2)))


@cuda.jit(device=True)
def activated(x, code):
    """The activation of one number. Most are x/2 (1 + g(x)); see reference/activation.py. NaN stays NaN."""
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


def bias_activation_v1(f_RF, bias_F, activation, out=None, *, threads=THREADS):
    bias_F, out_RF = bias_and_result(f_RF, bias_F, out)
    blocks = -(-f_RF.size // threads)
    launch(activation_per_number, blocks, threads, f_RF, bias_F, code_of(activation), out_RF)
    return out_RF


@cuda.jit
def activation_per_number(f_RF, bias_F, code, out_RF):
    i = cuda.grid(1)
    if i < f_RF.size:
        r = i // f_RF.shape[1]
        c = i - r * f_RF.shape[1]
        out_RF[r, c] = activated(plus(f_RF[r, c], bias_F, c), code)


def bias_activation_v2(f_RF, bias_F, activation, out=None):
    bias_F, out_RF = bias_and_result(f_RF, bias_F, out)
    R, F = f_RF.shape
    grid = -(-F // THREADS), min(-(-R // ROWS), MOST_BLOCKS)
    launch(activation_per_column, grid, THREADS, f_RF, bias_F, code_of(activation), out_RF)
    return out_RF


@cuda.jit
def activation_per_column(f_RF, bias_F, code, out_RF):
    c = cuda.grid(1)
    if c < f_RF.shape[1]:
        bias = plus(float32(0), bias_F, c)
        for r in range(cuda.blockIdx.y, f_RF.shape[0], cuda.gridDim.y):
            out_RF[r, c] = activated(f_RF[r, c] + bias, code)


def bias_activation(f_RF, bias_F, activation, out=None):
    """Version 3; version 2 where rows do not begin at multiples of 16 bytes, or do not end there."""
    bias_F, out_RF = bias_and_result(f_RF, bias_F, out)
    R, F = f_RF.shape
    loaded = (f_RF, out_RF, bias_F[None]) if len(bias_F) else (f_RF, out_RF)
    if F % 4 or not all(begins_at_16_bytes(a) for a in loaded):
        return bias_activation_v2(f_RF, bias_F, activation, out_RF)
    grid = -(-F // (4 * THREADS)), min(-(-R // ROWS), MOST_BLOCKS)
    launch(activation_per_four_columns, grid, THREADS, f_RF, bias_F, code_of(activation), out_RF)
    return out_RF


@cuda.jit
def activation_per_four_columns(f_RF, bias_F, code, out_RF):
    c = 4 * cuda.grid(1)
    if c < f_RF.shape[1]:
        a = b = d = e = float32(0)
        if bias_F.shape[0] > 0:
            a, b, d, e = wide_load(bias_F, c)
        for r in range(cuda.blockIdx.y, f_RF.shape[0], cuda.gridDim.y):
            w, x, y, z = wide_load(f_RF[r], c)
            w, x = activated(w + a, code), activated(x + b, code)
            y, z = activated(y + d, code), activated(z + e, code)
            wide_store(out_RF[r], c, w, x, y, z)


def add_bias(x_RX, bias_X, out=None):
    """The kernel of version 2, with nothing behind the bias."""
    bias_X, out_RX = bias_and_result(x_RX, bias_X, out)
    grid = -(-x_RX.shape[1] // THREADS), min(-(-len(x_RX) // ROWS), MOST_BLOCKS)
    launch(activation_per_column, grid, THREADS, x_RX, bias_X, PLAIN, out_RX)
    return out_RX


def gated_activation(f_RX, activation, out=None):
    """A thread per pair of columns: it reads gate and up side by side."""
    R, F = len(f_RX), f_RX.shape[1] // 2
    _check(f_RX)
    out_RF = np.empty_like(f_RX, shape=(R, F), order="C") if out is None else out
    launch(gate_per_pair, -(-R * F // THREADS), THREADS, f_RX, code_of(activation), out_RF)
    return out_RF


@cuda.jit
def gate_per_pair(f_RX, code, out_RF):
    i, F = cuda.grid(1), out_RF.shape[1]
    if i < out_RF.size:
        r, c = i // F, i % F
        out_RF[r, c] = activated(f_RX[r, 2 * c], code) * f_RX[r, 2 * c + 1]


def bias_and_result(f_RF, bias_F, out):
    """An empty bias where there is none, and where the result is written: `out`, or a new array beside f."""
    _check(f_RF)
    return or_empty(bias_F, f_RF[:, 0]), np.empty_like(f_RF, order="C") if out is None else out


def _check(f_RF):
    if f_RF.dtype != np.float32:
        raise OptionError(
            f"the kernels of cuda/activation.py compute in float32, not {f_RF.dtype}: activation=cpu does both"
        )


# What each kernel is compiled and type-checked for, without a GPU.
_ARGUMENTS = (float32[:, ::1], float32[::1], int64, float32[:, ::1])
SIGNATURES = {
    kernel: [_ARGUMENTS] for kernel in (activation_per_number, activation_per_column, activation_per_four_columns)
} | {gate_per_pair: [(float32[:, ::1], int64, float32[:, ::1])]}
