"""Skinny GEMM (few rows): each weight is read once, and cast to float32 in a register.

In the layout "oi" each output's weights lie side by side, and a tile of six outputs and four rows keeps its 24 sums in
registers: what is read of either serves several times. In "io" an input's weights lie side by side. Threads take
outputs in tasks (thread_pool.py).
"""

from __future__ import annotations

import numpy as np

from .jit import REORDER, njit
from .low_precision import f32
from .tasks import in_tasks
from .thread_pool import ALL_WORKERS, CALLER_ALONE, DONE, parallel_for

NEAR = 4096  # results that stay in the first cache while all weights go by


def multiply(x_RX, w_XX, scale_X, is_oi, y_RX, per_task):
    """y = x w, times the scale, `per_task` outputs a task; 0: of all, since it is too little for a second thread.

    All arrays are contiguous and x, scale and y float32. At least one row.
    """
    outputs = y_RX.shape[1]
    tasks, workers = (-(-outputs // per_task), ALL_WORKERS) if per_task else (1, CALLER_ALONE)
    parallel_for(_multiply_outputs, tasks, (x_RX, w_XX, scale_X, is_oi, y_RX, per_task or outputs), workers)


@in_tasks()
def _multiply_outputs(task, x_RX, w_XX, scale_X, is_oi, y_RX, per_task):
    """The task's outputs, each sum ending in its scale."""
    first, last = task * per_task, min((task + 1) * per_task, y_RX.shape[1])
    if not is_oi:
        _add_up_inputs(x_RX, w_XX, scale_X, first, last, y_RX)
        return DONE
    fours = len(x_RX) // 4 * 4  # rows four by four, and up to three that are left
    if fours:
        _multiply_tiles(x_RX[:fours], w_XX, scale_X, first, last, y_RX[:fours])
    if fours < len(x_RX):
        _multiply_up_to_three_rows(x_RX[fours:], w_XX, scale_X, first, last, y_RX[fours:])
    return DONE


@njit(cache=True, nogil=True, fastmath=REORDER)
def _multiply_up_to_three_rows(x_RX, w_XX, scale_X, first, last, y_RX):
    """Layout "oi", one to three rows, which take as long as reading the weights does.

    Two outputs at once, half of the range apart, are two streams of memory that the processor fetches ahead side by
    side; it reads them a fifth faster than one. (If their number is odd, the one in the middle is made twice.)
    """
    half = (last - first + 1) // 2
    apart = last - first - half
    for o in range(first, first + half):
        w_X, v_X = w_XX[o], w_XX[o + apart]
        for r in range(len(x_RX)):
            a = b = np.float32(0)
            for i in range(len(w_X)):
                a += x_RX[r, i] * f32(w_X[i])
                b += x_RX[r, i] * f32(v_X[i])
            y_RX[r, o], y_RX[r, o + apart] = scale_X[o] * a, scale_X[o + apart] * b


@njit(cache=True, nogil=True, fastmath=REORDER)
def _multiply_tiles(x_RX, w_XX, scale_X, first, last, y_RX):
    """Layout "oi", four rows by four: six outputs at once, which lie a sixth of the range apart.

    So there are six streams to fetch ahead while rows are multiplied that need no more reading. (If six does not divide
    their number, some outputs are made twice. Processors with 16 vector registers spill some of the 24 sums.)
    """
    sixth = (last - first + 5) // 6
    apart = last - first - sixth  # of the first stream and the last
    for o in range(first, first + sixth):
        o1, o2, o3, o4, o5 = o + apart // 5, o + apart * 2 // 5, o + apart * 3 // 5, o + apart * 4 // 5, o + apart
        w_X, w1_X, w2_X, w3_X, w4_X, w5_X = w_XX[o], w_XX[o1], w_XX[o2], w_XX[o3], w_XX[o4], w_XX[o5]
        for r in range(0, len(x_RX), 4):
            a0 = a1 = a2 = a3 = a4 = a5 = b0 = b1 = b2 = b3 = b4 = b5 = np.float32(0)
            c0 = c1 = c2 = c3 = c4 = c5 = d0 = d1 = d2 = d3 = d4 = d5 = np.float32(0)
            for i in range(len(w_X)):
                s, t, u = f32(w_X[i]), f32(w1_X[i]), f32(w2_X[i])
                v, w, z = f32(w3_X[i]), f32(w4_X[i]), f32(w5_X[i])
                a, b, c, d = x_RX[r, i], x_RX[r + 1, i], x_RX[r + 2, i], x_RX[r + 3, i]
                a0, a1, a2, a3, a4, a5 = a0 + a * s, a1 + a * t, a2 + a * u, a3 + a * v, a4 + a * w, a5 + a * z
                b0, b1, b2, b3, b4, b5 = b0 + b * s, b1 + b * t, b2 + b * u, b3 + b * v, b4 + b * w, b5 + b * z
                c0, c1, c2, c3, c4, c5 = c0 + c * s, c1 + c * t, c2 + c * u, c3 + c * v, c4 + c * w, c5 + c * z
                d0, d1, d2, d3, d4, d5 = d0 + d * s, d1 + d * t, d2 + d * u, d3 + d * v, d4 + d * w, d5 + d * z
            _write_four(y_RX[r : r + 4, o], scale_X[o], a0, b0, c0, d0)
            _write_four(y_RX[r : r + 4, o1], scale_X[o1], a1, b1, c1, d1)
            _write_four(y_RX[r : r + 4, o2], scale_X[o2], a2, b2, c2, d2)
            _write_four(y_RX[r : r + 4, o3], scale_X[o3], a3, b3, c3, d3)
            _write_four(y_RX[r : r + 4, o4], scale_X[o4], a4, b4, c4, d4)
            _write_four(y_RX[r : r + 4, o5], scale_X[o5], a5, b5, c5, d5)


@njit(inline="always")
def _write_four(y_R, scale, a, b, c, d):
    """Writes an output's sums for four rows, multiplied by its scale."""
    y_R[0], y_R[1], y_R[2], y_R[3] = scale * a, scale * b, scale * c, scale * d


@njit(cache=True, nogil=True, fastmath=REORDER)
def _add_up_inputs(x_RX, w_XX, scale_X, first, last, y_RX):
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
                    y_X[o] += a * f32(w0_X[o]) + b * f32(w1_X[o]) + c * f32(w2_X[o]) + d * f32(w3_X[o])
        for i in range(fours, inputs):
            w_X = w_XX[i, begin:end]
            for r in range(R):
                a, y_X = x_RX[r, i], y_RX[r, begin:end]
                for o in range(end - begin):
                    y_X[o] += a * f32(w_X[o])
        for r in range(R):
            y_X, s_X = y_RX[r, begin:end], scale_X[begin:end]
            for o in range(end - begin):
                y_X[o] *= s_X[o]
