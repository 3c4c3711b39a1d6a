"""Bias and activation in one kernel (LightSeq, section 2.1: `ker_bias_gelu`, `ker_bias_relu`).

1. A thread per number. Each divides to find its row, and loads a bias of its own.
2. A thread per column: it loads the column's bias once and walks down the rows with it, some rows apart. 1.25 loads per
   number instead of 2, and no division. Neighbouring threads still read neighbouring numbers.
3. The same with four columns to a thread, by 128-bit loads and stores: a quarter of the instructions ask for the same
   bytes. Rows must begin at multiples of 16 bytes.
4. A thread loads four columns of four rows before it computes. The activations of most models have a kernel each, so
   that no number is compared with a list of codes; a tanh is made of one exponential: x/2 (1 + tanh(u)) is x / (1 +
   exp(-2 u)). Floor: 8 bytes a number at 2.4 TB/s; a launch in a graph, 1.1 us, for few rows. Predicted: 1.7
   us for few rows. On 1 GB the goal is 85 % of a copy's bandwidth, and `minidecode predict activation` gives 77 %:
   memory alone allows 100 %, L2 183 %, instructions 211 %, waits 338 %, L1 427 %. Not measured by itself; version 3
   reached 48 % on 1 GB (H100, 2026-11-26).

In the others a whole number says which activation it is. All threads take the same way through `activate`, so that
the choice costs a few comparisons beside a load that takes hundreds of cycles.
"""

from __future__ import annotations

import math

from numba import cuda, float32, int64

from ..device.launch import launch
from ..reference.activation import GELU, GELU_NEW, PLAIN, RELU, SILU, activation_code, is_gated
from .common.activation import (
    CUBE,
    HALF,
    ONE,
    ROOT_OF_HALF,
    ROOT_OF_TWO_PI,
    TWO,
    ZERO,
    activate,
    activate_pairs,
    bias_and_result,
)
from .common.bias import with_bias
from .common.fours import KEPT, are_whole_fours, grid_of_fours, load_fours, store_fours
from .common.grids import grid_of_columns
from .common.reduction import THREADS
from .common.vector_load import has_aligned_rows, wide_load, wide_store


def bias_activation_v1(f_RX, bias_X, activation, out=None, *, threads=THREADS):
    """y_RX = act(f_RX + bias_X), a thread per number.

    Launches `activation_per_number` in ceil(RX / threads) blocks. Reads 8RX bytes, a bias for each number, and writes
    4RX. Columns that are pairs of gate and up take `activate_pairs`, here and below.
    """
    if is_gated(activation):
        return activate_pairs(f_RX, bias_X, activation, out)
    bias_X, y_RX = bias_and_result(f_RX, bias_X, out)
    blocks = -(-f_RX.size // threads)
    launch(activation_per_number, blocks, threads, f_RX, bias_X, activation_code(activation), y_RX)
    return y_RX


@cuda.jit
def activation_per_number(f_RX, bias_X, code, y_RX):
    """Activates one number of f_RX a thread, which divides to find its row.

    Any grid of RX threads. A thread reads 8 bytes and writes 4.
    """
    i = cuda.grid(1)
    if i < f_RX.size:
        r = i // f_RX.shape[1]
        c = i - r * f_RX.shape[1]
        y_RX[r, c] = activate(with_bias(f_RX[r, c], bias_X, c), code)


def bias_activation_v2(f_RX, bias_X, activation, out=None):
    """y_RX = act(f_RX + bias_X), a thread per column that walks down rows.

    Launches `activation_per_column` as (ceil(X / 128), ceil(R / 4)) blocks of 128, at most 65,535 on the second axis.
    Reads 5RX bytes, a bias for each four numbers, and writes 4RX.
    """
    if is_gated(activation):
        return activate_pairs(f_RX, bias_X, activation, out)
    bias_X, y_RX = bias_and_result(f_RX, bias_X, out)
    R, X = f_RX.shape
    launch(activation_per_column, grid_of_columns(X, R), THREADS, f_RX, bias_X, activation_code(activation), y_RX)
    return y_RX


@cuda.jit
def activation_per_column(f_RX, bias_X, code, y_RX):
    """Activates column c of every gridDim.y-th row of f_RX, with one load of its bias.

    Grid (ceil(X / 128), blocks of rows), block 128. A thread reads 4 bytes and 4 for each of its rows, and writes 4 for
    each.
    """
    c = cuda.grid(1)
    if c < f_RX.shape[1]:
        bias = with_bias(float32(0), bias_X, c)
        for r in range(cuda.blockIdx.y, f_RX.shape[0], cuda.gridDim.y):
            y_RX[r, c] = activate(f_RX[r, c] + bias, code)


def bias_activation_v3(f_RX, bias_X, activation, out=None):
    """y_RX = act(f_RX + bias_X), a thread per four columns, by 128-bit loads and stores.

    Launches `activation_per_four_columns` as (ceil(X / 512), ceil(R / 4)) blocks of 128. Reads 5RX bytes and writes
    4RX. Version 2 where rows do not begin at multiples of 16 bytes, or do not end there.
    """
    if is_gated(activation):
        return activate_pairs(f_RX, bias_X, activation, out)
    bias_X, y_RX = bias_and_result(f_RX, bias_X, out)
    R, X = f_RX.shape
    loaded = (f_RX, y_RX, bias_X[None]) if len(bias_X) else (f_RX, y_RX)
    if X % 4 or not all(has_aligned_rows(a) for a in loaded):
        return bias_activation_v2(f_RX, bias_X, activation, y_RX)
    launch(
        activation_per_four_columns,
        grid_of_columns(X // 4, R),
        THREADS,
        f_RX,
        bias_X,
        activation_code(activation),
        y_RX,
    )
    return y_RX


@cuda.jit
def activation_per_four_columns(f_RX, bias_X, code, y_RX):
    """Activates four columns of every gridDim.y-th row of f_RX.

    Grid (ceil(X / 512), blocks of rows), block 128. A thread reads 16 bytes and 16 for each of its rows, and writes 16
    for each.
    """
    c = 4 * cuda.grid(1)
    if c < f_RX.shape[1]:
        a = b = d = e = float32(0)
        if bias_X.shape[0] > 0:
            a, b, d, e = wide_load(bias_X, c)
        for r in range(cuda.blockIdx.y, f_RX.shape[0], cuda.gridDim.y):
            w, x, y, z = wide_load(f_RX[r], c)
            w, x = activate(w + a, code), activate(x + b, code)
            y, z = activate(y + d, code), activate(z + e, code)
            wide_store(y_RX[r], c, w, x, y, z)


@cuda.jit(device=True)
def scale_by_logistic(x, slope):
    """x / (1 + exp(-slope)): x/2 (1 + tanh(slope / 2)). Far below 0 the exponential is infinite, and the quotient 0."""
    return x / (ONE + math.exp(-slope))


def make_activation_kernel(code):
    """A kernel of version 4 for one activation, or for any (None), which it gets as an argument."""

    @cuda.jit
    def activation_of_fours(f_RX, bias_X, given, y_RX):
        """Activates four columns of four rows.

        Grid (ceil(R / 4), ceil(X / 512)), block 128. A thread reads 80 bytes and writes 64.
        """
        kept = cuda.local.array(KEPT, float32)
        c = 4 * (cuda.blockIdx.y * THREADS + cuda.threadIdx.x)
        if c >= f_RX.shape[1]:
            return
        load_fours(kept, f_RX, bias_X, c, c)
        for k in range(KEPT):
            x = kept[k]
            if code == GELU_NEW:
                kept[k] = scale_by_logistic(x, TWO * ROOT_OF_TWO_PI * (x + CUBE * x * x * x))
            elif code == SILU:
                kept[k] = scale_by_logistic(x, x)
            elif code == GELU:
                kept[k] = HALF * x * (ONE + math.erf(x * ROOT_OF_HALF))
            elif code == RELU:
                kept[k] = ZERO if x < ZERO else x
            elif code == PLAIN:
                kept[k] = x
            else:
                kept[k] = activate(x, given)
        store_fours(y_RX, c, kept)

    return activation_of_fours


any_activation = make_activation_kernel(None)
OF_CODE = {code: make_activation_kernel(code) for code in (GELU_NEW, SILU, GELU, RELU, PLAIN)}


def bias_activation(f_RX, bias_X, activation, out=None):
    """y_RX = act(f_RX + bias_X), four columns of four rows a thread, and a kernel for each common activation.

    Version 4: (ceil(R / 4), ceil(X / 512)) blocks of 128. Reads 5RX bytes and writes 4RX. Version 2 where rows do not
    begin at multiples of 16 bytes, or do not end there.
    """
    if is_gated(activation):
        return activate_pairs(f_RX, bias_X, activation, out)
    bias_X, y_RX = bias_and_result(f_RX, bias_X, out)
    if not are_whole_fours(f_RX, y_RX, bias_X):
        return bias_activation_v2(f_RX, bias_X, activation, y_RX)
    code = activation_code(activation)
    launch(OF_CODE.get(code, any_activation), grid_of_fours(*f_RX.shape), THREADS, f_RX, bias_X, code, y_RX)
    return y_RX


def add_bias(x_RX, bias_X, out=None):
    """out_RX = x_RX + bias_X, by the kernel of version 4, or of version 2, with nothing behind the bias.

    Reads 5RX bytes and writes 4RX.
    """
    bias_X, out_RX = bias_and_result(x_RX, bias_X, out)
    if are_whole_fours(x_RX, out_RX, bias_X):
        launch(OF_CODE[PLAIN], grid_of_fours(*x_RX.shape), THREADS, x_RX, bias_X, PLAIN, out_RX)
        return out_RX
    launch(activation_per_column, grid_of_columns(x_RX.shape[1], len(x_RX)), THREADS, x_RX, bias_X, PLAIN, out_RX)
    return out_RX


# What each kernel is compiled and type-checked for, without a GPU.
_ARGUMENTS = (float32[:, ::1], float32[::1], int64, float32[:, ::1])
SIGNATURES = {
    kernel: [_ARGUMENTS] for kernel in (activation_per_number, activation_per_column, activation_per_four_columns)
}
SIGNATURES |= {kernel: [_ARGUMENTS] for kernel in (*OF_CODE.values(), any_activation)}
REGISTERS = {kernel: 64 for kernel in (*OF_CODE.values(), any_activation)}
