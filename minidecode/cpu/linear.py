"""Products for few rows, compiled for the CPU: each weight is read once, and widened in a register.

Decoding multiplies 1 to 64 rows by large weights, and takes as long as reading them does. From two rows on BLAS first
copies the weights into an order of its own, which pays where there are many rows to share the copy. Narrow weights
(float16, int8) BLAS does not know at all. So few rows are multiplied here, and many by BLAS.

In the layout "oi" each output's weights lie side by side, and a tile of four outputs and four rows keeps its 16 sums in
registers: what is read of either serves four times. So a model that is loaded for this code has its weights in "oi"
(precision.py).

What is few was measured by benchmarks/few_rows.py, beside OpenBLAS: up to `FEW` rows these loops are faster than the
other way, and further on processors with 32 vector registers, where a tile's sums all find one. Float32 in the layout
"io" is near BLAS's own order: there one row is BLAS's, and from `FEW_OF_IO` rows on all are. So are float32 weights
under `SMALL`, whose copies stay in a cache.
"""

from __future__ import annotations

import functools
import os
import platform
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from llvmlite import binding
from numba import config, njit

from ..reference import linear as reference
from .narrow import in_bits, wide, widen_all

REORDER = {"reassoc", "contract"}  # sums in any order, so that they run on vectors
MANY_REGISTERS = platform.machine() in ("arm64", "aarch64") or binding.get_host_cpu_features().get("avx512f", False)
FEW = {np.dtype(np.float32): 24, np.dtype(np.float16): 32, np.dtype(np.int8): 24}
if MANY_REGISTERS:
    FEW = {np.dtype(np.float32): 48, np.dtype(np.float16): 96, np.dtype(np.int8): 96}
FEW_OF_IO = 8
TILED = 4 if MANY_REGISTERS else 8  # rows from which tiles are faster than outputs one by one
SMALL = 2**21  # bytes
WORTH_A_THREAD = 3 * 2**20  # bytes to read: 90 us, against 40 us until another thread has begun and is waited for
AS_LONG_AS = 0.5  # bytes to read: one multiplication and addition of a row
NEAR = 4096  # results that stay in the first cache while all weights go by


def linear(x_RX, weight, add_to=None, out=None, *, workspace=None):
    """Few rows here, each sum ending in its scale; many by BLAS, narrow weights widened by blocks."""
    if x_RX.dtype == np.float32 and _is_few(len(x_RX), weight):
        return linear_few_rows(x_RX, weight, add_to, out)
    if x_RX.dtype == weight.data.dtype:
        return reference.linear(x_RX, weight, add_to, out)
    y_RX = reference.product_by_blocks(x_RX, weight, out, widen_all, workspace)
    return y_RX if add_to is None else np.add(add_to, y_RX, out=add_to)


def _is_few(rows, weight):
    if weight.data.dtype == np.float32 and weight.data.nbytes < SMALL:
        return False
    if weight.data.dtype == np.float32 and weight.layout == "io":
        return 2 <= rows <= FEW_OF_IO
    return rows <= FEW.get(weight.data.dtype, 0)


def linear_few_rows(x_RX, weight, add_to=None, out=None):
    """The loops below, however many rows there are; x is float32.

    Outputs are dealt out to threads in ranges, where there are enough weights; this thread takes the last range.
    """
    data = in_bits(weight.data)
    kernel, outputs = _tiles if len(x_RX) >= TILED else _dots if len(x_RX) >= 4 else _pairs, data.shape[0]
    if weight.layout == "io":
        kernel, outputs = _sums, data.shape[1]
    scale_X = np.broadcast_to(np.float32(1), outputs) if weight.scale is None else weight.scale
    y_RX = np.empty((len(x_RX), outputs), np.float32) if out is None else out
    x_RX = np.ascontiguousarray(x_RX)  # as compiled for
    work = data.nbytes + AS_LONG_AS * data.size * len(x_RX)
    ranges = max(1, min(config.NUMBA_NUM_THREADS, int(work / WORTH_A_THREAD)))
    ends = [outputs * k // ranges for k in range(ranges + 1)]
    elsewhere = [_threads().submit(kernel, x_RX, data, scale_X, *ends[k : k + 2], y_RX) for k in range(ranges - 1)]
    kernel(x_RX, data, scale_X, *ends[-2:], y_RX)
    for started in elsewhere:
        started.result()
    return y_RX if add_to is None else np.add(add_to, y_RX, out=add_to)


@functools.cache
def _threads():
    """Threads of our own: two Python threads inside of Numba's may abort the process, where it has no OpenMP or TBB."""
    return ThreadPoolExecutor(max(1, config.NUMBA_NUM_THREADS - 1), "minidecode")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # the parent's threads are not there


@njit(cache=True, nogil=True, fastmath=REORDER)
def _pairs(x_RX, w_XX, scale_X, first, last, y_RX):
    """Layout "oi", for one to three rows, which take as long as reading the weights does.

    Two outputs at once, half of the range apart, are two streams of memory that the processor fetches ahead side by
    side; it reads them a fifth faster than one.
    """
    half = (last - first) // 2
    for o in range(first, first + half):
        w_X, v_X = w_XX[o], w_XX[o + half]
        for r in range(len(x_RX)):
            a = b = np.float32(0)
            for i in range(len(w_X)):
                a += x_RX[r, i] * wide(w_X[i])
                b += x_RX[r, i] * wide(v_X[i])
            y_RX[r, o], y_RX[r, o + half] = scale_X[o] * a, scale_X[o + half] * b
    _dots(x_RX, w_XX, scale_X, first + 2 * half, last, y_RX)  # one more, if their number is odd


@njit(cache=True, nogil=True, fastmath=REORDER)
def _dots(x_RX, w_XX, scale_X, first, last, y_RX):
    """Layout "oi": an output's weights lie side by side, and are multiplied with four rows at once."""
    fours = len(x_RX) // 4 * 4
    for o in range(first, last):
        w_X = w_XX[o]
        for r in range(0, fours, 4):
            a = b = c = d = np.float32(0)
            for i in range(len(w_X)):
                w = wide(w_X[i])
                a += x_RX[r, i] * w
                b += x_RX[r + 1, i] * w
                c += x_RX[r + 2, i] * w
                d += x_RX[r + 3, i] * w
            s = scale_X[o]
            y_RX[r, o], y_RX[r + 1, o], y_RX[r + 2, o], y_RX[r + 3, o] = s * a, s * b, s * c, s * d
        for r in range(fours, len(x_RX)):
            a = np.float32(0)
            for i in range(len(w_X)):
                a += x_RX[r, i] * wide(w_X[i])
            y_RX[r, o] = scale_X[o] * a


@njit(cache=True, nogil=True, fastmath=REORDER)
def _tiles(x_RX, w_XX, scale_X, first, last, y_RX):
    """Layout "oi": four outputs and four rows at once. (On processors with 16 vector registers some sums are spilled;
    from 8 rows on it is faster all the same.)"""
    rows, outputs = len(x_RX) // 4 * 4, first + (last - first) // 4 * 4
    for o in range(first, outputs, 4):
        s_X, t_X, u_X, v_X = w_XX[o], w_XX[o + 1], w_XX[o + 2], w_XX[o + 3]
        for r in range(0, rows, 4):
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = c0 = c1 = c2 = c3 = d0 = d1 = d2 = d3 = np.float32(0)
            for i in range(len(s_X)):
                s, t, u, v = wide(s_X[i]), wide(t_X[i]), wide(u_X[i]), wide(v_X[i])
                a, b, c, d = x_RX[r, i], x_RX[r + 1, i], x_RX[r + 2, i], x_RX[r + 3, i]
                a0, a1, a2, a3 = a0 + a * s, a1 + a * t, a2 + a * u, a3 + a * v
                b0, b1, b2, b3 = b0 + b * s, b1 + b * t, b2 + b * u, b3 + b * v
                c0, c1, c2, c3 = c0 + c * s, c1 + c * t, c2 + c * u, c3 + c * v
                d0, d1, d2, d3 = d0 + d * s, d1 + d * t, d2 + d * u, d3 + d * v
            p, q, m, n = scale_X[o], scale_X[o + 1], scale_X[o + 2], scale_X[o + 3]
            y_RX[r, o], y_RX[r, o + 1], y_RX[r, o + 2], y_RX[r, o + 3] = p * a0, q * a1, m * a2, n * a3
            y_RX[r + 1, o], y_RX[r + 1, o + 1], y_RX[r + 1, o + 2], y_RX[r + 1, o + 3] = p * b0, q * b1, m * b2, n * b3
            y_RX[r + 2, o], y_RX[r + 2, o + 1], y_RX[r + 2, o + 2], y_RX[r + 2, o + 3] = p * c0, q * c1, m * c2, n * c3
            y_RX[r + 3, o], y_RX[r + 3, o + 1], y_RX[r + 3, o + 2], y_RX[r + 3, o + 3] = p * d0, q * d1, m * d2, n * d3
    _dots(x_RX[rows:], w_XX, scale_X, first, outputs, y_RX[rows:])
    _dots(x_RX, w_XX, scale_X, outputs, last, y_RX)


@njit(cache=True, nogil=True, fastmath=REORDER)
def _sums(x_RX, w_XX, scale_X, first, last, y_RX):
    """Layout "io": an input's weights lie side by side; four inputs at once are added to the sums of all rows.

    The sums of a block of outputs stay in the cache; results are read and written there for every four weights. Slices
    of the block, and not places in the whole array: only so does LLVM see that no index is negative.
    """
    R, inputs = x_RX.shape
    fours, block = inputs // 4 * 4, max(256, NEAR // R)
    for begin in range(first, last, block):
        end = min(begin + block, last)
        for r in range(R):
            y_RX[r, begin:end] = 0
        for i in range(0, fours, 4):
            w0_X, w1_X = w_XX[i, begin:end], w_XX[i + 1, begin:end]
            w2_X, w3_X = w_XX[i + 2, begin:end], w_XX[i + 3, begin:end]
            for r in range(R):
                a, b, c, d, y_X = x_RX[r, i], x_RX[r, i + 1], x_RX[r, i + 2], x_RX[r, i + 3], y_RX[r, begin:end]
                for o in range(end - begin):
                    y_X[o] += a * wide(w0_X[o]) + b * wide(w1_X[o]) + c * wide(w2_X[o]) + d * wide(w3_X[o])
        for i in range(fours, inputs):
            w_X = w_XX[i, begin:end]
            for r in range(R):
                a, y_X = x_RX[r, i], y_RX[r, begin:end]
                for o in range(end - begin):
                    y_X[o] += a * wide(w_X[o])
        for r in range(R):
            y_X, s_X = y_RX[r, begin:end], scale_X[begin:end]
            for o in range(end - begin):
                y_X[o] *= s_X[o]
