"""GEMM of weights in blocks (int4, int8_blocks): integers become floats in a register, and meet float32 rows.

Weights lie in panels of 32 outputs (device/weight_blocks.py), whatever the processor. A tile is some rows by a panel's
outputs. It takes eight inputs at a time, which have one scale for each output:

1. Of int4, a register holds eight numbers of each of its outputs. AVX-512 looks a number up in a table of 16 floats,
   which is a shift and a permutation for 16 weights; other processors shift its sign up, shift it down and cast it. Of
   int8, a load brings a register of numbers, which is cast.
2. Each row's eight products are added up, and their sum is multiplied by the scale and added to the row's total. So the
   scale costs one multiplication for eight weights, and no weight is rounded again.

One row takes as long as reading the weights does, or as the casts. More rows share them. A sum runs over its inputs in
their order, so results depend neither on tasks, threads nor on the other rows.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ...device.weight_blocks import BLOCK, BYTES_OF_SCALE, PANEL_OUTPUTS, STEP
from ...ops import Weight
from .jit import njit
from .panel_gemm import cut_into_tasks
from .tasks import in_tasks
from .thread_pool import DONE, parallel_for
from .tile import F32, I8, I16, I32, I64, LINE, MOST_ROWS, Kind, best_of, fetch, float_of_half, load_from, on_all_lanes

F = np.float32
PREFETCH_BYTES = 2**12  # this many bytes before weights are read, they are fetched
ROWS_BYTES = 2**20  # of a task: the rows that go by
# The totals of a tile, a step's sums beside them, and what a step needs.
KINDS = (
    Kind("block tiles (avx512)", ("avx512f",), 16, 6, 2, is_float=True),
    Kind("block tiles (avx2)", ("avx2", "fma", "f16c"), 8, 4, 2, is_float=True),
    Kind("block tiles", (), 4, 4, 4, is_float=True),
)
KIND = best_of(KINDS) or KINDS[-1]


def tile_of(rows: int, bits: int):
    """The intrinsic that computes a tile of this many rows: `tile(x, x_row, panel, scale, steps, y, y_row)`.

    All arguments are whole numbers of 64 bits: the addresses of the first row's activations, of the panel, of its
    scales and of the results; the distances in bytes between rows of either; and how many times eight inputs there are.
    y[r, o] = sum over k of x[r, k] w[o, k] scale[o, k // 32].
    """

    @intrinsic
    def tile(typing_context, x, x_row, panel, scale, steps, y, y_row):
        def emit_tile(context, builder, signature, arguments):
            if rows <= KIND.rows:
                for first in range(0, PANEL_OUTPUTS, KIND.width):
                    _write_tile(rows, bits, first, builder, *arguments)
            return context.get_dummy_value()

        return types.none(*[types.int64] * 7), emit_tile

    return tile


def _write_tile(rows, bits, first, builder, x, x_row, panel, scale, steps, y, y_row):
    """Writes the tile's code for KIND.width outputs of the panel, from `first` on."""
    registers, floats, size = range(KIND.registers), ir.VectorType(F32, KIND.lanes), 4 * KIND.lanes
    multiply_add = ir.FunctionType(floats, [floats] * 3)
    fused = builder.module.declare_intrinsic(f"llvm.fmuladd.v{KIND.lanes}f32", (), multiply_add)
    step_bytes, scale_bytes = STEP * PANEL_OUTPUTS * bits // 8, PANEL_OUTPUTS * BYTES_OF_SCALE
    x_addresses = [builder.add(x, builder.mul(x_row, I64(r))) for r in range(rows)]
    before, body, end = builder.block, builder.append_basic_block("step"), builder.append_basic_block("end")
    builder.branch(body)

    builder.position_at_end(body)
    step = builder.phi(I64)
    totals_RV = [[builder.phi(floats) for _ in registers] for _ in range(rows)]
    w = builder.add(panel, builder.mul(step, I64(step_bytes)))
    s = builder.add(scale, builder.mul(builder.udiv(step, I64(BLOCK // STEP)), I64(scale_bytes)))
    at_x = builder.mul(step, I64(4 * STEP))
    if first == 0:
        for line in range(0, step_bytes, LINE):
            fetch(builder, builder.add(w, I64(PREFETCH_BYTES + line)))
    halves = ir.VectorType(I16, KIND.lanes)
    scale_V = [
        float_of_half(builder, load_from(builder, builder.add(s, I64(2 * (first + v * KIND.lanes))), halves, 2))
        for v in registers
    ]
    numbers = _four_bits if bits == 4 else _eight_bits
    w_VK = [numbers(builder, w, first + v * KIND.lanes) for v in registers]
    sums_RV = [[None for _ in registers] for _ in range(rows)]
    for k in range(STEP):
        w_V = [w_VK[v](k) for v in registers]
        for r in range(rows):
            number = load_from(builder, builder.add(x_addresses[r], builder.add(at_x, I64(4 * k))), F32, 4)
            x_V = on_all_lanes(builder, number, floats)
            for v in registers:
                so_far = sums_RV[r][v]
                sums_RV[r][v] = (
                    builder.fmul(x_V, w_V[v]) if so_far is None else builder.call(fused, [x_V, w_V[v], so_far])
                )
    next_step = builder.add(step, I64(1))
    step.add_incoming(I64(0), before)
    step.add_incoming(next_step, body)
    for r in range(rows):
        for v in registers:
            next_total = builder.call(fused, [sums_RV[r][v], scale_V[v], totals_RV[r][v]])
            totals_RV[r][v].add_incoming(ir.Constant(floats, None), before)
            totals_RV[r][v].add_incoming(next_total, body)
            sums_RV[r][v] = next_total
    builder.cbranch(builder.icmp_signed("<", next_step, steps), body, end)

    builder.position_at_end(end)
    for r in range(rows):
        for v in registers:
            address = builder.add(builder.add(y, builder.mul(y_row, I64(r))), I64(4 * first + v * size))
            builder.store(sums_RV[r][v], builder.inttoptr(address, floats.as_pointer())).align = 4


def _four_bits(builder, w, first):
    """A function k -> the floats of input k of a step, for the outputs from `first` on."""
    words, floats = ir.VectorType(I32, KIND.lanes), ir.VectorType(F32, KIND.lanes)
    eight = load_from(builder, builder.add(w, I64(4 * first)), words, 4)

    def constant(number):
        return ir.Constant(words, [number] * KIND.lanes)

    def looked_up(k):
        table = ir.Constant(floats, [float(n if n < 8 else n - 16) for n in range(16)])
        look_up = builder.module.declare_intrinsic(
            "llvm.x86.avx512.permvar.sf.512", (), ir.FunctionType(floats, [floats, words])
        )
        return builder.call(look_up, [table, builder.lshr(eight, constant(4 * k))])

    def cast(k):
        return builder.sitofp(builder.ashr(builder.shl(eight, constant(28 - 4 * k)), constant(28)), floats)

    return looked_up if KIND.lanes == 16 else cast


def _eight_bits(builder, w, first):
    octets, words = (ir.VectorType(number, KIND.lanes) for number in (I8, I32))

    def cast(k):
        numbers = load_from(builder, builder.add(w, I64(k * PANEL_OUTPUTS + first)), octets, 1)
        return builder.sitofp(builder.sext(numbers, words), ir.VectorType(F32, KIND.lanes))

    return cast


def multiply(x_RX, weight: Weight, y_RX, adds: bool = False) -> None:
    """y = x w, or added to y. x and y are float32 and contiguous, with at least one row; the weight is in panels."""
    assert weight.scale is not None
    panels, most_rows = len(weight.data), max(MOST_ROWS, ROWS_BYTES // (4 * x_RX.shape[1]) // MOST_ROWS * MOST_ROWS)
    tasks, cut, workers = cut_into_tasks(len(x_RX), weight, weight.scale.size * BLOCK, most_rows)
    w_PX, scale_PX = weight.data.reshape(panels, -1).view(np.uint8), weight.scale.reshape(panels, -1).view(np.uint16)
    function = _multiply_int4 if weight.data.dtype == np.uint8 else _multiply_int8
    parallel_for(function, tasks, (x_RX, w_PX, scale_PX, y_RX, adds, *cut), workers)


TILE_ROWS = KIND.rows
_one, _two, _three, _four, _five, _six = (tile_of(rows, 4) for rows in range(1, MOST_ROWS + 1))
_one_8, _two_8, _three_8, _four_8, _five_8, _six_8 = (tile_of(rows, 8) for rows in range(1, MOST_ROWS + 1))


@in_tasks()
def _multiply_int4(task, x_RX, w_PX, scale_PX, y_RX, adds, panels_of_task, rows_of_task):
    return _panels_for_rows(task, _tile_of_int4, 4, x_RX, w_PX, scale_PX, y_RX, adds, panels_of_task, rows_of_task)


@in_tasks()
def _multiply_int8(task, x_RX, w_PX, scale_PX, y_RX, adds, panels_of_task, rows_of_task):
    return _panels_for_rows(task, _tile_of_int8, 8, x_RX, w_PX, scale_PX, y_RX, adds, panels_of_task, rows_of_task)


@njit(inline="always")
def _panels_for_rows(task, tile, bits, x_RX, w_PX, scale_PX, y_RX, adds, panels_of_task, rows_of_task):
    """Some panels for some rows: tiles of rows one after the other, and for each of them all panels of the task.

    Results go where they belong at once; those that are added, and those of a panel that is wider than the outputs
    left, go by way of `tile_RX`.
    """
    (rows, inputs), outputs, panels = x_RX.shape, y_RX.shape[1], len(w_PX)
    x, w = np.int64(x_RX.ctypes.data), np.int64(w_PX.ctypes.data)
    scale, y = np.int64(scale_PX.ctypes.data), np.int64(y_RX.ctypes.data)
    tasks_of_panels = -(-panels // panels_of_task)
    p0, r0 = task % tasks_of_panels * panels_of_task, task // tasks_of_panels * rows_of_task
    p1, r1 = min(p0 + panels_of_task, panels), min(r0 + rows_of_task, rows)
    panel_bytes, scale_bytes = inputs * PANEL_OUTPUTS * bits // 8, inputs // BLOCK * PANEL_OUTPUTS * BYTES_OF_SCALE
    tile_RX = np.empty((TILE_ROWS, PANEL_OUTPUTS), np.float32)
    for r in range(r0, r1, TILE_ROWS):
        here = min(TILE_ROWS, r1 - r)
        for p in range(p0, p1):
            o = p * PANEL_OUTPUTS
            some = min(PANEL_OUTPUTS, outputs - o)
            is_apart = adds or some < PANEL_OUTPUTS
            to, to_row = y + 4 * (r * outputs + o), 4 * outputs
            if is_apart:
                to, to_row = np.int64(tile_RX.ctypes.data), 4 * PANEL_OUTPUTS
            of_panel, scales = w + p * panel_bytes, scale + p * scale_bytes
            tile(here, x + 4 * r * inputs, 4 * inputs, of_panel, scales, inputs // STEP, to, to_row)
            for k in range(here if is_apart else 0):
                for i in range(some):
                    y_RX[r + k, o + i] = tile_RX[k, i] + y_RX[r + k, o + i] if adds else tile_RX[k, i]
    return DONE


@njit(inline="always")
def _tile_of_int4(rows, x, x_row, panel, scale, steps, y, y_row):
    """The tile that has this many rows."""
    if rows == 6:
        _six(x, x_row, panel, scale, steps, y, y_row)
    elif rows == 5:
        _five(x, x_row, panel, scale, steps, y, y_row)
    elif rows == 4:
        _four(x, x_row, panel, scale, steps, y, y_row)
    elif rows == 3:
        _three(x, x_row, panel, scale, steps, y, y_row)
    elif rows == 2:
        _two(x, x_row, panel, scale, steps, y, y_row)
    else:
        _one(x, x_row, panel, scale, steps, y, y_row)


@njit(inline="always")
def _tile_of_int8(rows, x, x_row, panel, scale, steps, y, y_row):
    if rows == 6:
        _six_8(x, x_row, panel, scale, steps, y, y_row)
    elif rows == 5:
        _five_8(x, x_row, panel, scale, steps, y, y_row)
    elif rows == 4:
        _four_8(x, x_row, panel, scale, steps, y, y_row)
    elif rows == 3:
        _three_8(x, x_row, panel, scale, steps, y, y_row)
    elif rows == 2:
        _two_8(x, x_row, panel, scale, steps, y, y_row)
    else:
        _one_8(x, x_row, panel, scale, steps, y, y_row)
