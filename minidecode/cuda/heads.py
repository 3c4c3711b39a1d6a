"""Bias and split into heads in one kernel (LightSeq, section 2.1: `ker_arrange_encself_qkv`).

1. A kernel for each step: the bias is added, then queries, keys and values are copied out, one kernel each. All numbers
   go to memory and come back in between.
2. One kernel adds the bias on the way: each number is read once and written once. The rows are the grid's first axis,
   so that no thread divides to find its place.

LightSeq's kernel also puts the heads in front of the rows, as its strided-batched product wants them. Here rows stay in
front: a product reads a head by its row stride, so that there is no need to move it.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int64

from ..errors import OptionError
from ..reference import in_rows, or_empty
from ..runtime.launch import launch
from .common.bias import plus

THREADS = 128


def split_heads_v1(qkv_RX, bias_X, heads, out=None):
    q_RHK, k_RGK, v_RGU = results(qkv_RX, heads, out)
    biased_RX = np.empty_like(q_RHK, shape=qkv_RX.shape)
    launch(plus_bias, per_row(biased_RX), THREADS, qkv_RX, or_empty(bias_X, qkv_RX[:, 0]), biased_RX)
    first = 0
    for part in (q_RHK, k_RGK, v_RGU):
        part_RX = in_rows(part)
        launch(copy_columns, per_row(part_RX), THREADS, biased_RX, first, part_RX)
        first += part_RX.shape[1]
    return q_RHK, k_RGK, v_RGU


@cuda.jit
def plus_bias(qkv_RX, bias_X, biased_RX):
    r, x = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    if x < biased_RX.shape[1]:
        biased_RX[r, x] = plus(qkv_RX[r, x], bias_X, x)


@cuda.jit
def copy_columns(biased_RX, first, part_RX):
    r, x = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    if x < part_RX.shape[1]:
        part_RX[r, x] = biased_RX[r, first + x]


def split_heads(qkv_RX, bias_X, heads, out=None):
    """Version 2."""
    q_RHK, k_RGK, v_RGU = results(qkv_RX, heads, out)
    parts = map(in_rows, (q_RHK, k_RGK, v_RGU))
    launch(add_and_cut, per_row(qkv_RX), THREADS, qkv_RX, or_empty(bias_X, qkv_RX[:, 0]), *parts)
    return q_RHK, k_RGK, v_RGU


@cuda.jit
def add_and_cut(qkv_RX, bias_X, q_RX, k_RX, v_RX):
    r, x = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    keys = q_RX.shape[1]
    values = keys + k_RX.shape[1]
    if x >= qkv_RX.shape[1]:
        return
    number = plus(qkv_RX[r, x], bias_X, x)
    if x < keys:
        q_RX[r, x] = number
    elif x < values:
        k_RX[r, x - keys] = number
    else:
        v_RX[r, x - values] = number


def per_row(x_RX):
    """A grid of so many blocks a row that each number has a thread."""
    R, X = x_RX.shape
    return R, -(-X // THREADS)


def results(qkv_RX, heads, out):
    """Where queries, keys and values go. Raises OptionError where the kernels do not compute in this type."""
    if qkv_RX.dtype != np.float32:
        raise OptionError(f"the kernels that cut into heads take float32, not {qkv_RX.dtype}: the reference does both")
    R, G = len(qkv_RX), heads.G
    shapes = (R, heads.H, heads.K), (R, G, heads.K), (R, G, heads.U)
    return out or tuple(np.empty_like(qkv_RX, shape=shape, order="C") for shape in shapes)


# What each kernel is compiled and type-checked for, without a GPU. A product may be some columns of a wider one.
PRODUCT_RX, ROWS_RX, ROW_X = float32[:, :], float32[:, ::1], float32[::1]
SIGNATURES = {
    plus_bias: [(PRODUCT_RX, ROW_X, ROWS_RX)],
    copy_columns: [(ROWS_RX, int64, ROWS_RX)],
    add_and_cut: [(PRODUCT_RX, ROW_X, ROWS_RX, ROWS_RX, ROWS_RX)],
}
