"""Skinny GEMMs (few rows), with weights of float32, float16, int8 or blocks of int8 and int4.

1. A thread per result, the loop of the CPU. Every row reads all weights for itself; and in the layout "oi", where an
   output's weights lie side by side, neighbouring threads read addresses a whole output apart.
2. Neighbouring lanes read neighbouring weights, and what is read serves ROWS rows. In "oi" a warp has an output, and
   adds up by shuffles; in "io", where the weights of an input lie side by side, its lanes have 32 outputs, and the
   warps of a block share the inputs and add up in shared memory.
3. The same with 128-bit loads in "oi": four float32, eight float16 or sixteen int8 at once. Fewer instructions ask for
   the same bytes, so that more of them are on their way at a time. Rows must begin at multiples of 16 bytes.

Weights in blocks have a kernel like that of version 3, and no other: a load is a block of int4 or half of one of int8,
whose scale its lane applies to the sum of its products.

All sums are float32, and end where they are, in a register: in the output's scale, and for cuda/epilogue.py in bias,
activation and residual too. Many rows belong on tensor cores, by cuBLAS.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, cuda, float32, int8, int64, uint8
from numba.core.types import float16

from ..errors import OptionError
from ..reference import scratch
from ..reference.activation import code_of
from ..runtime.launch import launch, products
from ..runtime.low_precision import unpacked
from ..runtime.weight_blocks import BLOCK, is_in_blocks
from . import filled
from .activation import activated
from .common.reduction import THREADS, WARPS, warp_sum
from .common.vector_load import begins_at_16_bytes, wide_load, wide_store

ROWS = 8  # that one read of a weight serves; their sums stay in registers. More rows go to further blocks
LANES = 32
LOAD = 16  # bytes of a wide load
MANY = 64  # rows: each ROWS of them read all weights once more. Not yet measured on a GPU


def linear_v1(x_RX, weight, add_to=None, out=None, *, bias_X=None, activation=None):
    """The matrix of "io" is handed over transposed, as a view: the kernel sees (outputs, inputs)."""
    if is_in_blocks(weight):
        return _of_blocks(x_RX, weight, add_to, out, bias_X, activation)
    w_XX = weight.data if weight.layout == "oi" else weight.data.T
    results = len(x_RX) * len(w_XX)
    return _launch(
        thread_per_result, -(-results // THREADS), x_RX, w_XX, len(w_XX), weight, add_to, out, bias_X, activation
    )


@cuda.jit
def thread_per_result(x_RX, w_XX, scale_X, bias_X, biased, code, adds, y_RX):
    n, outputs = cuda.grid(1), y_RX.shape[1]
    if n >= y_RX.size:
        return
    r, o = n // outputs, n % outputs
    total = float32(0)
    for i in range(x_RX.shape[1]):
        total += x_RX[r, i] * float32(w_XX[o, i])
    end(total, r, o, scale_X, bias_X, biased, code, adds, y_RX)


@cuda.jit(device=True)
def end(total, r, o, scale_X, bias_X, biased, code, adds, y_RX):
    """What becomes of a sum: times its scale, plus its bias, activated, and added to what is there, or written."""
    y = scale_X[o] * total
    if biased:
        y += bias_X[o]
    y = activated(y, code)
    if adds:
        y += y_RX[r, o]
    y_RX[r, o] = y


def linear_v2(x_RX, weight, add_to=None, out=None, *, bias_X=None, activation=None, workspace=None):
    if is_in_blocks(weight):
        return _of_blocks(x_RX, weight, add_to, out, bias_X, activation, workspace)
    if weight.layout == "io":
        outputs = weight.data.shape[1]
        grid, kernel = (-(-outputs // LANES), -(-len(x_RX) // ROWS)), block_per_lot_of_outputs
    else:
        outputs = len(weight.data)
        grid, kernel = (-(-outputs // WARPS), -(-len(x_RX) // ROWS)), warp_per_output
    return _launch(kernel, grid, x_RX, weight.data, outputs, weight, add_to, out, bias_X, activation, workspace)


@cuda.jit
def warp_per_output(x_RX, w_XX, scale_X, bias_X, biased, code, adds, y_RX):
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
    end_sums_of_warp(sums, first, o, lane, scale_X, bias_X, biased, code, adds, y_RX)


@cuda.jit(device=True)
def end_sums_of_warp(sums, first, o, lane, scale_X, bias_X, biased, code, adds, y_RX):
    """What all lanes have found, for each of the rows from `first` on: a lane for each row ends it, all at once."""
    mine = float32(0)
    for k in range(ROWS):
        if first + k < y_RX.shape[0]:  # the same for all lanes; one row is five shuffles, and not forty
            total = warp_sum(sums[k])
            if lane == k:
                mine = total
    if lane < ROWS and first + lane < y_RX.shape[0]:
        end(mine, first + lane, o, scale_X, bias_X, biased, code, adds, y_RX)


@cuda.jit
def block_per_lot_of_outputs(x_RX, w_XX, scale_X, bias_X, biased, code, adds, y_RX):
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
            end(total, first + k, o, scale_X, bias_X, biased, code, adds, y_RX)


def linear(x_RX, weight, add_to=None, out=None, *, bias_X=None, activation=None, workspace=None):
    """Version 3; version 2 in the layout "io", and where rows are no whole number of 16 bytes, or begin elsewhere.

    Many rows go to the library, for tiles and tensor cores; it gets float16 and int8 weights as a wide copy, which at a
    prefill is little beside the product.
    """
    if len(x_RX) > MANY and bias_X is activation is None:
        return _by_the_library(x_RX, weight, add_to, out, workspace)
    if is_in_blocks(weight):
        return _of_blocks(x_RX, weight, add_to, out, bias_X, activation, workspace)
    is_whole = x_RX.shape[1] % (16 // weight.data.itemsize) == 0
    if weight.layout == "io" or not is_whole or not all(begins_at_16_bytes(a) for a in (x_RX, weight.data)):
        return linear_v2(x_RX, weight, add_to, out, bias_X=bias_X, activation=activation, workspace=workspace)
    outputs = len(weight.data)
    grid, ends_in = (-(-outputs // WARPS), -(-len(x_RX) // ROWS)), (bias_X, activation)
    return _launch(warp_per_output_wide, grid, x_RX, weight.data, outputs, weight, add_to, out, *ends_in, workspace)


def _by_the_library(x_RX, weight, add_to, out, workspace):
    weight = unpacked(weight)
    data = weight.data
    if is_in_blocks(weight):
        data = scratch(workspace, (weight.outputs, x_RX.shape[1]), x_RX)
        scale_XX = weight.scale if weight.scale.flags.c_contiguous else weight.scale.copy()
        w_XX = _wide_rows(weight.data)
        launch(widen_blocks, -(-w_XX.size // LOAD // THREADS), THREADS, w_XX, scale_XX, data)
    elif data.dtype != x_RX.dtype:
        data = scratch(workspace, data.shape, x_RX)
        data[...] = weight.data
    w_XX = data if weight.layout == "io" else data.T
    y_RX = scratch(None if add_to is None else workspace, (len(x_RX), w_XX.shape[1]), x_RX) if out is None else out
    products([(x_RX, w_XX, y_RX)])
    if weight.scale is not None and not is_in_blocks(weight):
        y_RX *= weight.scale
    return y_RX if add_to is None else np.add(add_to, y_RX, out=add_to)


@cuda.jit
def warp_per_output_wide(x_RX, w_XX, scale_X, bias_X, biased, code, adds, y_RX):
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
    end_sums_of_warp(sums, first, o, lane, scale_X, bias_X, biased, code, adds, y_RX)


def _of_blocks(x_RX, weight, add_to=None, out=None, bias_X=None, activation=None, workspace=None):
    """Few rows and weights in blocks; many take their time, for each ROWS of them read all weights."""
    weight, outputs = unpacked(weight), weight.outputs
    if x_RX.dtype != np.float32:
        raise OptionError(f"the kernels of cuda/linear.py multiply float32 by blocks, not {x_RX.dtype}")
    grid = -(-outputs // WARPS), -(-len(x_RX) // ROWS)
    y_RX = out if add_to is None else add_to
    y_RX = np.empty_like(x_RX, order="C", shape=(len(x_RX), outputs)) if y_RX is None else y_RX
    biased, ones_X = bias_X is not None, filled(workspace, outputs, x_RX, 1)  # sums have had their scales
    ends_in = ones_X, bias_X if biased else ones_X, biased, code_of(activation), add_to is not None
    arrays = _wide_rows(x_RX), _wide_rows(weight.data), weight.scale
    launch(warp_per_output_blocks, grid, THREADS, *arrays, *ends_in, y_RX)
    return y_RX


def _wide_rows(array_XX):
    """The array, or a copy whose rows begin where wide loads can."""
    if begins_at_16_bytes(array_XX):
        return array_XX
    copy_XX = np.empty_like(array_XX, order="C")
    copy_XX[...] = array_XX
    return copy_XX


@cuda.jit
def warp_per_output_blocks(x_RX, w_XX, scale_XX, scale_X, bias_X, biased, code, adds, y_RX):
    first, lane = cuda.blockIdx.y * ROWS, cuda.threadIdx.x % 32
    o = cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32
    if o >= y_RX.shape[1]:
        return
    sums = cuda.local.array(ROWS, float32)
    for k in range(ROWS):
        sums[k] = float32(0)
    for place in range(LOAD * lane, w_XX.shape[1], LOAD * 32):
        w = wide_load(w_XX[o], place)
        i = place // LOAD * len(w)
        scale = float32(scale_XX[o, i // BLOCK])
        for k in range(ROWS):
            if first + k < x_RX.shape[0]:
                part = float32(0)
                for four in range(0, len(w), 4):
                    x = wide_load(x_RX[first + k], i + four)
                    for j in range(4):
                        part += w[four + j] * x[j]
                sums[k] += scale * part
    end_sums_of_warp(sums, first, o, lane, scale_X, bias_X, biased, code, adds, y_RX)


@cuda.jit
def widen_blocks(w_XX, scale_XX, wide_XX):
    """A thread per load of weights."""
    n, loads = cuda.grid(1), w_XX.shape[1] // LOAD
    if n >= w_XX.shape[0] * loads:
        return
    o, place = n // loads, n % loads * LOAD
    w = wide_load(w_XX[o], place)
    i = place // LOAD * len(w)
    scale = float32(scale_XX[o, i // BLOCK])
    for four in range(0, len(w), 4):
        wide_store(wide_XX[o], i + four, scale * w[four], scale * w[four + 1], scale * w[four + 2], scale * w[four + 3])


def _launch(kernel, grid, x_RX, w_XX, outputs, weight, add_to, out, bias_X, activation, workspace=None):
    if x_RX.dtype != np.float32 or w_XX.dtype not in (np.float32, np.float16, np.int8):
        raise OptionError(
            f"the kernels of cuda/linear.py multiply float32 by float32, float16 or int8, not {x_RX.dtype} by"
            f" {w_XX.dtype}: the reference takes float64 too"
        )
    y_RX = out if add_to is None else add_to
    y_RX = np.empty_like(x_RX, order="C", shape=(len(x_RX), outputs)) if y_RX is None else y_RX
    scale_X = filled(workspace, outputs, x_RX, 1) if weight.scale is None else weight.scale
    biased = bias_X is not None  # without, nothing reads what stands in its place
    ends_in = scale_X, bias_X if biased else scale_X, biased, code_of(activation), add_to is not None
    launch(kernel, grid, THREADS, x_RX, w_XX, *ends_in, y_RX)
    return y_RX


# What each kernel is compiled and type-checked for, without a GPU.
STORED = (float32, float16, int8)
ROWS_OF, ROW = float32[:, ::1], float32[::1]
ENDS_IN = (ROW, ROW, boolean, int64, boolean, ROWS_OF)
SIGNATURES = {
    kernel: [(ROWS_OF, stored[:, ::1], *ENDS_IN) for stored in STORED]
    for kernel in (thread_per_result, warp_per_output, block_per_lot_of_outputs, warp_per_output_wide)
}
SIGNATURES[thread_per_result] += [(ROWS_OF, stored[::1, :], *ENDS_IN) for stored in STORED]
IN_BLOCKS = [(stored[:, ::1], float16[:, ::1]) for stored in (int8, uint8)]
SIGNATURES[warp_per_output_blocks] = [(ROWS_OF, *blocks, *ENDS_IN) for blocks in IN_BLOCKS]
SIGNATURES[widen_blocks] = [(*blocks, ROWS_OF) for blocks in IN_BLOCKS]
REGISTERS = dict.fromkeys(SIGNATURES, 64)  # the sums of ROWS rows
REGISTERS[warp_per_output_blocks] = REGISTERS[warp_per_output_wide] = 96  # and sixteen numbers of a load
