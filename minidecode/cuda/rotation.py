"""Bias and rotation of queries and keys in one kernel.

1. A thread per number: it reads its own number and that which turns with it, and both of them are read twice.
2. A thread per pair: the two numbers, the cosine and the sine are read once. Values get threads of their own.

Floor for a decode step: a launch in a graph, 1.1 us. Predicted 2.1 us: cosine and sine wait for the position. Not
measured.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int64

from ..device.launch import launch
from ..errors import OptionError
from ..reference import or_empty, view_as_rows
from .common.bias import with_bias

THREADS = 128


def rotate_heads_v1(qkv_RX, bias_X, heads, pos_R, turns_NK, out=None):
    """Adds the bias and rotates queries and keys of qkv_RX by their position, a thread per number.

    Launches `rotate_number` as (R, ceil(X / 128)) blocks of 128. Reads 32 bytes for a number that turns and 8 for
    one of the values; writes 4RX.
    """
    return _launch(rotate_number, qkv_RX.shape[1], qkv_RX, bias_X, heads, pos_R, turns_NK, out)


@cuda.jit
def rotate_number(qkv_RX, bias_X, pos_R, turns_NK, turned, y_RX):
    """Rotates one number, for which it reads the one that turns with it too; copies one of the values.

    Grid (R, ceil(X / 128)), block 128. A thread reads 32 bytes, or 8, and writes 4.
    """
    r, x, K = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x, turns_NK.shape[1]
    if x >= qkv_RX.shape[1]:
        return
    number = with_bias(qkv_RX[r, x], bias_X, x)
    if x < turned:
        i, half, position = x % K, K // 2, pos_R[r]
        if i < half:
            other = with_bias(qkv_RX[r, x + half], bias_X, x + half)
            number = number * turns_NK[position, i] - other * turns_NK[position, half + i]
        else:
            other = with_bias(qkv_RX[r, x - half], bias_X, x - half)
            number = number * turns_NK[position, i - half] + other * turns_NK[position, i]
    y_RX[r, x] = number


def rotate_heads(qkv_RX, bias_X, heads, pos_R, turns_NK, out=None):
    """Adds the bias and rotates queries and keys of qkv_RX by their position, a thread per pair.

    Version 2: `rotate_pair` as (R, ceil((X - turned / 2) / 128)) blocks of 128. Reads 32 bytes for two numbers that
    turn and 8 for one of the values; writes 4RX.
    """
    threads = qkv_RX.shape[1] - (heads.H + heads.G) * heads.K // 2
    return _launch(rotate_pair, threads, qkv_RX, bias_X, heads, pos_R, turns_NK, out)


@cuda.jit
def rotate_pair(qkv_RX, bias_X, pos_R, turns_NK, turned, y_RX):
    """Rotates the two numbers of a pair; further threads copy one of the values.

    Grid (R, ceil((X - turned / 2) / 128)), block 128. A thread reads 32 bytes and writes 8, or reads 8 and writes 4.
    """
    r, t, half = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x, turns_NK.shape[1] // 2
    pairs = turned // 2
    if t < pairs:
        i = t % half
        x, position = 2 * (t - i) + i, pos_R[r]
        a, b = with_bias(qkv_RX[r, x], bias_X, x), with_bias(qkv_RX[r, x + half], bias_X, x + half)
        cos, sin = turns_NK[position, i], turns_NK[position, half + i]
        y_RX[r, x] = a * cos - b * sin
        y_RX[r, x + half] = b * cos + a * sin
    elif t + pairs < qkv_RX.shape[1]:
        x = t + pairs
        y_RX[r, x] = with_bias(qkv_RX[r, x], bias_X, x)


def _launch(kernel, threads, qkv_RX, bias_X, heads, pos_R, turns_NK, out):
    if qkv_RX.dtype != np.float32:
        raise OptionError(
            f"the kernels of cuda/rotation.py compute in float32, not {qkv_RX.dtype}: rotation=cpu does both"
        )
    y_RX = np.empty_like(qkv_RX, order="C") if out is None else out
    given = qkv_RX, or_empty(bias_X, qkv_RX[:, 0]), pos_R, turns_NK, (heads.H + heads.G) * heads.K
    launch(kernel, (len(qkv_RX), -(-threads // THREADS)), THREADS, *given, view_as_rows(y_RX))
    return y_RX


# What each kernel is compiled and type-checked for, without a GPU.
_ARGUMENTS = (float32[:, ::1], float32[::1], int64[::1], float32[:, ::1], int64, float32[:, ::1])
SIGNATURES = {rotate_number: [_ARGUMENTS], rotate_pair: [_ARGUMENTS]}
