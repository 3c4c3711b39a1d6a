"""Products of int8 weights and rows that are rounded to integers as they come (dynamic quantization).

A kernel rounds the rows, a block each; another multiplies. Of that one:
1. A thread per result, which multiplies byte by byte.
2. A warp per output: neighbouring lanes read neighbouring words of four weights, each word serves ROWS rows, and dp4a
   multiplies and adds four bytes in one instruction. Rows must be whole words. From LIBRARY_FROM rows on the library
   multiplies, on tensor cores, with sums in int32; a kernel behind it ends them. Outputs must be a multiple of four.

Floor of few rows: the bytes of the weights at 2.4 TB/s, and two launches. GPT-2's product with the vocabulary: 39 MB,
16 us. Predicted 115 us: a lane has one load of 4 bytes on its way, and loads of 16 bytes without more of them reached
14 % of a copy's bandwidth in version 3 of linear.py. Not measured.

Floor of 8,192 rows by 1,024 x 4,096 (3.4e10 products): 0.05 ms at 7e14 products a second. Predicted 0.21 ms by the
library, as 400 MB of sums are written, read and written again, and 1.3 ms by version 2, whose dp4a have a load of x
each, at most 2.7e13 products a second. At 32 rows the library's two launches are as long as version 2. Not measured.

Sums are whole numbers, and so the same in whatever order they run: the number of rows changes no bit of a result.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, cuda, float32, int8, int32, int64
from numba.cuda import libdevice

from ..device.launch import launch
from ..device.low_precision import unpack_panels
from ..device.matmul import can_multiply_int8, matmul
from ..errors import OptionError
from ..reference import scratch
from ..reference.activation import activation_code, is_gated
from ..reference.linear_int8 import LEAST, check_number_of_inputs, largest_integer
from .common.activation import activate, activate_pairs_of_product
from .common.dp4a import dp4a
from .common.reduction import THREADS, WARPS, block_max, warp_sum

ROWS = 8  # that one read of a word of weights serves; their sums stay in registers
GROUP = 4  # bytes of a word
LIBRARY_FROM = 33  # rows from which the library is faster: an H100's, predicted
MOST_FINITE, ABOUT_ZERO = float32(np.finfo(np.float32).max), float32(LEAST)
INFINITE, NAN = float32(np.inf), float32(np.nan)


@cuda.jit
def round_rows(x_RX, largest, q_RX, scale_R):
    """Rounds a row to int8 by its largest number, zeros behind its end, and notes its scale.

    Grid R, block 128. Reads 8I bytes a row, in two passes, and writes I + 4.
    """
    part = cuda.shared.array(WARPS, float32)
    r, t, inputs = cuda.blockIdx.x, cuda.threadIdx.x, x_RX.shape[1]
    most = float32(0)
    for i in range(t, inputs, THREADS):
        size = abs(x_RX[r, i])
        if not size <= MOST_FINITE:
            size = INFINITE
        if size > most:
            most = size
    most = block_max(most, part)
    inverse = float32(0)
    if most > ABOUT_ZERO and most <= MOST_FINITE:
        inverse = largest / most
    for i in range(t, q_RX.shape[1], THREADS):
        q = int32(0)
        if i < inputs and inverse > float32(0):
            q = int32(libdevice.rintf(x_RX[r, i] * inverse))
        q_RX[r, i] = int8(q)
    if t == 0:
        scale_R[r] = most / largest if most <= MOST_FINITE else NAN


def linear_int8_v1(x_RX, weight, bias_X=None, activation=None, add_to=None, out=None, *, workspace=None):
    """y_RX = x_RX W of bytes, a thread per result.

    Launches `round_rows` in R blocks and `thread_per_result` in ceil(RO / 128), of 128. Reads 8RI bytes of x, then 2ROI
    of bytes; writes RI + 4RO.
    """
    if is_gated(activation):
        return activate_pairs_of_product(
            linear_int8_v1(x_RX, weight, workspace=workspace), bias_X, activation, add_to, out
        )
    weight, q_RX, ends_in, y_RX = _prepare_product(x_RX, weight, bias_X, activation, add_to, out, workspace)
    if y_RX.size:
        launch(thread_per_result, -(-y_RX.size // THREADS), THREADS, q_RX, weight.data, *ends_in, y_RX)
    return y_RX


@cuda.jit
def thread_per_result(q_RX, w_XX, scale_R, scale_X, bias_X, biased, code, adds, y_RX):
    """Sums one result over all inputs, byte by byte, and ends it.

    Grid ceil(RO / 128), block 128. A thread reads 2I bytes and 8 of scales, and writes 4.
    """
    n, outputs = cuda.grid(1), y_RX.shape[1]
    if n >= y_RX.size:
        return
    r, o = n // outputs, n % outputs
    total = int32(0)
    for i in range(w_XX.shape[1]):
        total += int32(q_RX[r, i]) * int32(w_XX[o, i])
    end_sum(total, r, o, scale_R, scale_X, bias_X, biased, code, adds, y_RX)


@cuda.jit(device=True)
def end_sum(total, r, o, scale_R, scale_X, bias_X, biased, code, adds, y_RX):
    """What becomes of a sum: times its scales, plus its bias, activated, and added to what is there, or written."""
    y = float32(total) * (scale_R[r] * scale_X[o])
    if biased:
        y += bias_X[o]
    y = activate(y, code)
    if adds:
        y += y_RX[r, o]
    y_RX[r, o] = y


def linear_int8(x_RX, weight, bias_X=None, activation=None, add_to=None, out=None, *, workspace=None):
    """y_RX = x_RX W of bytes, a warp per output, four products an instruction.

    Version 2: `round_rows` in R blocks and `warp_per_output` as (ceil(O / 4), ceil(R / 8)), of 128. Reads 8RI bytes of
    x, then OI ceil(R / 8) of weights and ROI of rounded rows; writes RI + 4RO. Many rows are the library's, which reads
    OI + RI bytes and writes 4RO, and `end_sums` in ceil(RO / 128) blocks. Version 1 where an output's weights are no
    whole number of words.
    """
    if is_gated(activation):
        return activate_pairs_of_product(
            linear_int8(x_RX, weight, workspace=workspace), bias_X, activation, add_to, out
        )
    if x_RX.shape[1] % GROUP:
        return linear_int8_v1(x_RX, weight, bias_X, activation, add_to, out, workspace=workspace)
    weight, q_RX, ends_in, y_RX = _prepare_product(x_RX, weight, bias_X, activation, add_to, out, workspace)
    if y_RX.size and len(q_RX) >= LIBRARY_FROM and can_multiply_int8(q_RX, weight.data):
        in_place = add_to is None and y_RX.flags.c_contiguous  # each sum lies where its result will
        sums_RX = y_RX.view(np.int32) if in_place else scratch(workspace, y_RX.shape, q_RX, np.dtype(np.int32))
        matmul([(q_RX, weight.data.T, sums_RX)])
        launch(end_sums, -(-y_RX.size // THREADS), THREADS, sums_RX, *ends_in, y_RX)
    elif y_RX.size:
        grid = -(-y_RX.shape[1] // WARPS), -(-len(q_RX) // ROWS)
        words = q_RX.view(np.int32), weight.data.view(np.int32)
        launch(warp_per_output, grid, THREADS, *words, *ends_in, y_RX)
    return y_RX


@cuda.jit
def warp_per_output(q_RX, w_XX, scale_R, scale_X, bias_X, biased, code, adds, y_RX):
    """Sums one output of up to 8 rows, in words of four bytes: both arrays are a quarter as wide.

    Grid (ceil(O / 4), ceil(R / 8)), block 128. A warp reads I bytes of weights and I a row, and writes 4 a row.
    """
    lane, o = cuda.threadIdx.x % 32, cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32
    if o >= y_RX.shape[1]:
        return
    for first in range(cuda.blockIdx.y * ROWS, y_RX.shape[0], cuda.gridDim.y * ROWS):
        sums = cuda.local.array(ROWS, int32)
        for k in range(ROWS):
            sums[k] = int32(0)
        for i in range(lane, w_XX.shape[1], 32):
            w = w_XX[o, i]
            for k in range(ROWS):
                if first + k < y_RX.shape[0]:
                    sums[k] = dp4a(w, q_RX[first + k, i], sums[k])
        mine = int32(0)
        for k in range(ROWS):
            if first + k < y_RX.shape[0]:  # the same for all lanes
                total = warp_sum(sums[k])
                if lane == k:
                    mine = total
        if lane < ROWS and first + lane < y_RX.shape[0]:
            end_sum(mine, first + lane, o, scale_R, scale_X, bias_X, biased, code, adds, y_RX)


@cuda.jit
def end_sums(sums_RX, scale_R, scale_X, bias_X, biased, code, adds, y_RX):
    """Ends one sum of the library's, as the kernels of few rows do in a register.

    Grid ceil(RO / 128), block 128. A thread reads 12 bytes, and 4 for each of bias and what it adds to; it writes 4.
    """
    n, outputs = cuda.grid(1), y_RX.shape[1]
    if n < y_RX.size:
        r, o = n // outputs, n % outputs
        end_sum(sums_RX[r, o], r, o, scale_R, scale_X, bias_X, biased, code, adds, y_RX)


def _prepare_product(x_RX, weight, bias_X, activation, add_to, out, workspace):
    """(weight in rows, whole numbers of x, what a sum ends in, where results go)."""
    if x_RX.dtype != np.float32:
        raise OptionError(f"the kernels of cuda/linear_int8.py round float32, not {x_RX.dtype}")
    check_number_of_inputs(x_RX)
    weight, (rows, inputs) = unpack_panels(weight), x_RX.shape
    q_RX = scratch(workspace, (rows, -(-inputs // GROUP) * GROUP), x_RX, np.dtype(np.int8))
    scale_R = scratch(workspace, (rows,), x_RX)
    if rows:
        launch(round_rows, rows, THREADS, x_RX, np.float32(largest_integer(weight.x_bits)), q_RX, scale_R)
    y_RX = out if add_to is None else add_to
    y_RX = np.empty_like(x_RX, order="C", shape=(rows, weight.outputs)) if y_RX is None else y_RX
    biased = bias_X is not None  # without, nothing reads what stands in its place
    ends_in = (
        scale_R,
        weight.scale,
        bias_X if biased else weight.scale,
        biased,
        activation_code(activation),
        add_to is not None,
    )
    return weight, q_RX, ends_in, y_RX


# What each kernel is compiled and type-checked for, without a GPU.
ROWS_OF, ROW, BYTES, WORDS = float32[:, ::1], float32[::1], int8[:, ::1], int32[:, ::1]
ENDS_IN = (ROW, ROW, ROW, boolean, int64, boolean, ROWS_OF)
SIGNATURES = {
    round_rows: [(ROWS_OF, float32, BYTES, ROW)],
    thread_per_result: [(BYTES, BYTES, *ENDS_IN)],
    warp_per_output: [(WORDS, WORDS, *ENDS_IN)],
    end_sums: [(WORDS, *ENDS_IN)],
}
REGISTERS = {thread_per_result: 64, warp_per_output: 64}  # the sums of ROWS rows
