"""Products for few rows, with weights of float32, float16 or int8.

1. A thread per result, the loop of the CPU. Every row reads all weights for itself; and in the layout "oi", where an
   output's weights lie side by side, neighbouring threads read addresses a whole output apart.
2. Neighbouring lanes read neighbouring weights, and what is read serves ROWS rows. In "oi" a warp has an output, and
   adds up by shuffles; in "io", where the weights of an input lie side by side, its lanes have 32 outputs, and the
   warps of a block share the inputs and add up in shared memory.
3. The same with 128-bit loads in "oi": four float32, eight float16 or sixteen int8 at once. Fewer instructions ask for
   the same bytes, so that more of them are on their way at a time. Rows must begin at multiples of 16 bytes.

All sums are float32, and end in the output's scale. Many rows belong on tensor cores, by cuBLAS.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import cuda, float32, int8, types
from numba.core.types import float16
from numba.cuda.extending import intrinsic

from ..emulator import register_body
from ..errors import OptionError
from ..launch import launch
from .reduction import THREADS, WARPS, warp_sum

ROWS = 8  # that one read of a weight serves; their sums stay in registers. More rows go to further blocks
LANES = 32


def linear_v1(x_RX, weight, add_to=None, out=None):
    """The matrix of "io" is handed over transposed, as a view: the kernel sees (outputs, inputs)."""
    w_XX = weight.data if weight.layout == "oi" else weight.data.T
    results = len(x_RX) * len(w_XX)
    return _launch(thread_per_result, -(-results // THREADS), x_RX, w_XX, len(w_XX), weight, add_to, out)


@cuda.jit
def thread_per_result(x_RX, w_XX, scale_X, y_RX):
    n, outputs = cuda.grid(1), y_RX.shape[1]
    if n >= y_RX.size:
        return
    r, o = n // outputs, n % outputs
    total = float32(0)
    for i in range(x_RX.shape[1]):
        total += x_RX[r, i] * float32(w_XX[o, i])
    y_RX[r, o] = scale_X[o] * total


def linear_v2(x_RX, weight, add_to=None, out=None):
    if weight.layout == "io":
        outputs = weight.data.shape[1]
        grid, kernel = (-(-outputs // LANES), -(-len(x_RX) // ROWS)), block_per_lot_of_outputs
    else:
        outputs = len(weight.data)
        grid, kernel = (-(-outputs // WARPS), -(-len(x_RX) // ROWS)), warp_per_output
    return _launch(kernel, grid, x_RX, weight.data, outputs, weight, add_to, out)


@cuda.jit
def warp_per_output(x_RX, w_XX, scale_X, y_RX):
    first, lane = cuda.blockIdx.y * ROWS, cuda.threadIdx.x % 32
    o = cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32
    if o >= y_RX.shape[1]:
        return
    sums = cuda.local.array(ROWS, float32)
    for k in range(ROWS):
        sums[k] = float32(0)
    for i in range(lane, x_RX.shape[1], 32):
        w = float32(w_XX[o, i])
        for k in range(ROWS):
            if first + k < x_RX.shape[0]:
                sums[k] += w * x_RX[first + k, i]
    write_sums_of_warp(sums, first, o, lane, scale_X, y_RX)


@cuda.jit(device=True)
def write_sums_of_warp(sums, first, o, lane, scale_X, y_RX):
    """What all lanes have found, for each of the rows from `first` on."""
    for k in range(ROWS):
        total = warp_sum(sums[k])
        if lane == 0 and first + k < y_RX.shape[0]:
            y_RX[first + k, o] = scale_X[o] * total


@cuda.jit
def block_per_lot_of_outputs(x_RX, w_XX, scale_X, y_RX):
    part = cuda.shared.array((WARPS, ROWS, LANES), float32)
    first, lane, warp = cuda.blockIdx.y * ROWS, cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    o = cuda.blockIdx.x * LANES + lane
    sums = cuda.local.array(ROWS, float32)
    for k in range(ROWS):
        sums[k] = float32(0)
    if o < y_RX.shape[1]:
        for i in range(warp, x_RX.shape[1], WARPS):
            w = float32(w_XX[i, o])
            for k in range(ROWS):
                if first + k < x_RX.shape[0]:
                    sums[k] += w * x_RX[first + k, i]
    for k in range(ROWS):
        part[warp, k, lane] = sums[k]
    cuda.syncthreads()
    for k in range(warp, ROWS, WARPS):
        if o < y_RX.shape[1] and first + k < y_RX.shape[0]:
            total = float32(0)
            for other in range(WARPS):
                total += part[other, k, lane]
            y_RX[first + k, o] = scale_X[o] * total


def linear(x_RX, weight, add_to=None, out=None):
    """Version 3; version 2 in the layout "io", and where rows do not begin at multiples of 16 bytes."""
    if weight.layout == "io" or not all(_begins_at_16_bytes(a) for a in (x_RX, weight.data)):
        return linear_v2(x_RX, weight, add_to, out)
    outputs = len(weight.data)
    grid = (-(-outputs // WARPS), -(-len(x_RX) // ROWS))
    return _launch(warp_per_output_wide, grid, x_RX, weight.data, outputs, weight, add_to, out)


@cuda.jit
def warp_per_output_wide(x_RX, w_XX, scale_X, y_RX):
    first, lane = cuda.blockIdx.y * ROWS, cuda.threadIdx.x % 32
    o = cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32
    if o >= y_RX.shape[1]:
        return
    sums = cuda.local.array(ROWS, float32)
    for k in range(ROWS):
        sums[k] = float32(0)
    together = 16 // w_XX.itemsize
    for i in range(together * lane, x_RX.shape[1], together * 32):
        w = wide_load(w_XX[o], i)
        for k in range(ROWS):
            if first + k < x_RX.shape[0]:
                for four in range(0, together, 4):
                    x = wide_load(x_RX[first + k], i + four)
                    for j in range(4):
                        sums[k] += w[four + j] * x[j]
    write_sums_of_warp(sums, first, o, lane, scale_X, y_RX)


@intrinsic
def wide_load(typing_context, numbers_X, index):
    """The float32 of the numbers in the 16 bytes from numbers_X[index] on, as a tuple: one 128-bit load."""
    number = {float32: ir.FloatType(), float16: ir.HalfType(), int8: ir.IntType(8)}[numbers_X.dtype]
    together = 128 // numbers_X.dtype.bitwidth

    def code(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        words = ir.VectorType(ir.IntType(32), 4)
        loaded = builder.load(builder.bitcast(builder.gep(data, [arguments[1]]), words.as_pointer()))
        loaded.align = 16
        numbers = builder.bitcast(loaded, ir.VectorType(number, together))
        each = [builder.extract_element(numbers, ir.Constant(ir.IntType(32), k)) for k in range(together)]
        if numbers_X.dtype is float16:
            each = [builder.fpext(n, ir.FloatType()) for n in each]
        if numbers_X.dtype is int8:
            each = [builder.sitofp(n, ir.FloatType()) for n in each]
        return context.make_tuple(builder, signature.return_type, each)

    return types.UniTuple(float32, together)(numbers_X, types.intp), code


@register_body(wide_load)
def _wide_load(numbers_X, index):
    return [float32(numbers_X[index + k]) for k in range(16 // numbers_X.itemsize)]


def _begins_at_16_bytes(array):
    """Whether the array and each of its rows do."""
    where = getattr(array, "__cuda_array_interface__", None) or array.__array_interface__
    return where["data"][0] % 16 == 0 and array.strides[0] % 16 == 0 and array.strides[1] == array.itemsize


def _launch(kernel, grid, x_RX, w_XX, outputs, weight, add_to, out):
    if x_RX.dtype != np.float32 or w_XX.dtype not in (np.float32, np.float16, np.int8):
        raise OptionError(
            f"the kernels of cuda/linear.py multiply float32 by float32, float16 or int8, not {x_RX.dtype} by"
            f" {w_XX.dtype}: the reference takes float64 too"
        )
    y_RX = np.empty_like(x_RX, order="C", shape=(len(x_RX), outputs)) if out is None else out
    scale_X = np.ones_like(x_RX, order="C", shape=outputs) if weight.scale is None else weight.scale
    launch(kernel, grid, THREADS, x_RX, w_XX, scale_X, y_RX)
    return y_RX if add_to is None else np.add(add_to, y_RX, out=add_to)


# What each kernel is compiled and type-checked for, without a GPU.
STORED = (float32, float16, int8)
ROWS_OF, ROW = float32[:, ::1], float32[::1]
SIGNATURES = {
    kernel: [(ROWS_OF, stored[:, ::1], ROW, ROWS_OF) for stored in STORED]
    for kernel in (thread_per_result, warp_per_output, block_per_lot_of_outputs, warp_per_output_wide)
}
SIGNATURES[thread_per_result] += [(ROWS_OF, stored[::1, :], ROW, ROWS_OF) for stored in STORED]
REGISTERS = dict.fromkeys(SIGNATURES, 64)  # the sums of ROWS rows
REGISTERS[warp_per_output_wide] = 88  # and sixteen numbers of a load
