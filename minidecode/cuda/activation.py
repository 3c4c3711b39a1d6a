"""Bias and activation in one kernel (LightSeq, section 2.1: `ker_bias_gelu`, `ker_bias_relu`).

1. A thread per number. Each divides to find its row, and loads a bias of its own.
2. A thread per column: it loads the column's bias once and walks down the rows with it, some rows apart. 1.25 loads per
   number instead of 2, and no division. Neighbouring threads still read neighbouring numbers.
3. The same with four columns to a thread, by 128-bit loads and stores: a quarter of the instructions ask for the same
   bytes. Rows must begin at multiples of 16 bytes.
4. A thread loads four columns of four rows before it computes. The activations of most models have a kernel each, so
   that no number is compared with a list of codes; a tanh is made of one exponential: x/2 (1 + tanh(u)) is
   x / (1 + exp(-2 u)). Predicted: 85 % of a copy's bandwidth. Not measured.

In the others a whole number says which activation it is. All threads take the same way through `activated`, so that
the choice costs a few comparisons beside a load that takes hundreds of cycles.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int64

from ..errors import OptionError
from ..reference import empty, or_empty
from ..reference.activation import (
    GATED,
    GELU,
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
    is_gated,
)
from ..runtime.launch import launch
from .common.bias import plus
from .common.fours import KEPT, grid_of, lie_in_fours, load_fours, store_fours
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


def bias_activation_v1(f_RX, bias_X, activation, out=None, *, threads=THREADS):
    if is_gated(activation):
        return pairs(f_RX, bias_X, activation, out)
    bias_X, y_RX = bias_and_result(f_RX, bias_X, out)
    blocks = -(-f_RX.size // threads)
    launch(activation_per_number, blocks, threads, f_RX, bias_X, code_of(activation), y_RX)
    return y_RX


@cuda.jit
def activation_per_number(f_RX, bias_X, code, y_RX):
    i = cuda.grid(1)
    if i < f_RX.size:
        r = i // f_RX.shape[1]
        c = i - r * f_RX.shape[1]
        y_RX[r, c] = activated(plus(f_RX[r, c], bias_X, c), code)


def bias_activation_v2(f_RX, bias_X, activation, out=None):
    if is_gated(activation):
        return pairs(f_RX, bias_X, activation, out)
    bias_X, y_RX = bias_and_result(f_RX, bias_X, out)
    R, X = f_RX.shape
    grid = -(-X // THREADS), min(-(-R // ROWS), MOST_BLOCKS)
    launch(activation_per_column, grid, THREADS, f_RX, bias_X, code_of(activation), y_RX)
    return y_RX


@cuda.jit
def activation_per_column(f_RX, bias_X, code, y_RX):
    c = cuda.grid(1)
    if c < f_RX.shape[1]:
        bias = plus(float32(0), bias_X, c)
        for r in range(cuda.blockIdx.y, f_RX.shape[0], cuda.gridDim.y):
            y_RX[r, c] = activated(f_RX[r, c] + bias, code)


def bias_activation_v3(f_RX, bias_X, activation, out=None):
    """Version 2 where rows do not begin at multiples of 16 bytes, or do not end there."""
    if is_gated(activation):
        return pairs(f_RX, bias_X, activation, out)
    bias_X, y_RX = bias_and_result(f_RX, bias_X, out)
    R, X = f_RX.shape
    loaded = (f_RX, y_RX, bias_X[None]) if len(bias_X) else (f_RX, y_RX)
    if X % 4 or not all(begins_at_16_bytes(a) for a in loaded):
        return bias_activation_v2(f_RX, bias_X, activation, y_RX)
    grid = -(-X // (4 * THREADS)), min(-(-R // ROWS), MOST_BLOCKS)
    launch(activation_per_four_columns, grid, THREADS, f_RX, bias_X, code_of(activation), y_RX)
    return y_RX


@cuda.jit
def activation_per_four_columns(f_RX, bias_X, code, y_RX):
    c = 4 * cuda.grid(1)
    if c < f_RX.shape[1]:
        a = b = d = e = float32(0)
        if bias_X.shape[0] > 0:
            a, b, d, e = wide_load(bias_X, c)
        for r in range(cuda.blockIdx.y, f_RX.shape[0], cuda.gridDim.y):
            w, x, y, z = wide_load(f_RX[r], c)
            w, x = activated(w + a, code), activated(x + b, code)
            y, z = activated(y + d, code), activated(z + e, code)
            wide_store(y_RX[r], c, w, x, y, z)


@cuda.jit(device=True)
def by_one_exponential(x, slope):
    """x / (1 + exp(-slope)): x/2 (1 + tanh(slope / 2)). Far below 0 the exponential is infinite, and the quotient 0."""
    return x / (ONE + math.exp(-slope))


def fours_activated(code):
    """A kernel of version 4 for one activation, or for any (None), which it gets as an argument."""

    @cuda.jit
    def activation_of_fours(f_RX, bias_X, given, y_RX):
        kept = cuda.local.array(KEPT, float32)
        c = 4 * (cuda.blockIdx.y * THREADS + cuda.threadIdx.x)
        if c >= f_RX.shape[1]:
            return
        load_fours(kept, f_RX, bias_X, c, c)
        for k in range(KEPT):
            x = kept[k]
            if code == GELU_NEW:
                kept[k] = by_one_exponential(x, TWO * ROOT_OF_TWO_PI * (x + CUBE * x * x * x))
            elif code == SILU:
                kept[k] = by_one_exponential(x, x)
            elif code == GELU:
                kept[k] = HALF * x * (ONE + math.erf(x * ROOT_OF_HALF))
            elif code == RELU:
                kept[k] = ZERO if x < ZERO else x
            elif code == PLAIN:
                kept[k] = x
            else:
                kept[k] = activated(x, given)
        store_fours(y_RX, c, kept)

    return activation_of_fours


any_activation = fours_activated(None)
OF_CODE = {code: fours_activated(code) for code in (GELU_NEW, SILU, GELU, RELU, PLAIN)}


def bias_activation(f_RX, bias_X, activation, out=None):
    """Version 4; version 2 where rows do not begin at multiples of 16 bytes, or do not end there."""
    if is_gated(activation):
        return pairs(f_RX, bias_X, activation, out)
    bias_X, y_RX = bias_and_result(f_RX, bias_X, out)
    if not lie_in_fours(f_RX, y_RX, bias_X[None]):
        return bias_activation_v2(f_RX, bias_X, activation, y_RX)
    code = code_of(activation)
    launch(OF_CODE.get(code, any_activation), grid_of(*f_RX.shape), THREADS, f_RX, bias_X, code, y_RX)
    return y_RX


def pairs(f_RX, bias_X, activation, out=None):
    """The kernel of all versions for columns that are pairs of gate and up."""
    R, F = len(f_RX), f_RX.shape[1] // 2
    out = empty(f_RX, (R, F)) if out is None else out
    bias_X, y_RF = bias_and_result(f_RX, bias_X, out)
    grid = -(-F // THREADS), min(-(-R // ROWS), MOST_BLOCKS)
    launch(pair_per_column, grid, THREADS, f_RX, bias_X, code_of(activation) - GATED, y_RF)
    return y_RF


def end_in_pairs(sums_RX, bias_X, activation, add_to, out):
    """What a product whose outputs are pairs becomes: two warps of its kernel hold a pair, so a kernel ends it."""
    if add_to is None:
        return pairs(sums_RX, bias_X, activation, out)
    return np.add(add_to, pairs(sums_RX, bias_X, activation), out=add_to)


@cuda.jit
def pair_per_column(f_RX, bias_X, code, y_RF):
    """A thread ends a pair: it reads two neighbours, as its neighbours do, and writes one number."""
    c = cuda.grid(1)
    if c < y_RF.shape[1]:
        gate, up = plus(float32(0), bias_X, 2 * c), plus(float32(0), bias_X, 2 * c + 1)
        for r in range(cuda.blockIdx.y, f_RX.shape[0], cuda.gridDim.y):
            y_RF[r, c] = activated(f_RX[r, 2 * c] + gate, code) * (f_RX[r, 2 * c + 1] + up)


def add_bias(x_RX, bias_X, out=None):
    """The kernel of version 4, or of version 2, with nothing behind the bias."""
    bias_X, out_RX = bias_and_result(x_RX, bias_X, out)
    if lie_in_fours(x_RX, out_RX, bias_X[None]):
        launch(OF_CODE[PLAIN], grid_of(*x_RX.shape), THREADS, x_RX, bias_X, PLAIN, out_RX)
        return out_RX
    grid = -(-x_RX.shape[1] // THREADS), min(-(-len(x_RX) // ROWS), MOST_BLOCKS)
    launch(activation_per_column, grid, THREADS, x_RX, bias_X, PLAIN, out_RX)
    return out_RX


def bias_and_result(f_RF, bias_F, out):
    """An empty bias where there is none, and where the result is written: `out`, or a new array beside f."""
    _check(f_RF)
    return or_empty(bias_F, f_RF[:, 0]), empty(f_RF, f_RF.shape) if out is None else out


def _check(f_RF):
    if f_RF.dtype != np.float32:
        raise OptionError(
            f"the kernels of cuda/activation.py compute in float32, not {f_RF.dtype}: activation=cpu does both"
        )


# What each kernel is compiled and type-checked for, without a GPU.
_ARGUMENTS = (float32[:, ::1], float32[::1], int64, float32[:, ::1])
SIGNATURES = {
    kernel: [_ARGUMENTS]
    for kernel in (activation_per_number, activation_per_column, activation_per_four_columns, pair_per_column)
}
SIGNATURES |= {kernel: [_ARGUMENTS] for kernel in (*OF_CODE.values(), any_activation)}
REGISTERS = {kernel: 64 for kernel in (*OF_CODE.values(), any_activation)}
