"""GEMM of packed weights: float32, or int8 with rows that are rounded to integers as they come.

1. Weights are packed once, when a model is loaded (`pack`). A panel is as many outputs as a tile has, and holds for
   each input the weights of its outputs, side by side; of int8, for every four inputs the four weights of each output.
   A tile reads its panel from the first byte to the last, whatever the number of rows. So one layout serves one row and
   a thousand.
2. A panel of int8 begins with what each output's sums begin with, and its scale. Sums begin with minus the offset's
   part: the offset times the sum of the output's weights (see tile.py).
3. `round_rows` makes what int8 weights meet: q = rint(x * largest / max |x|) of each row, in one byte, offset added.
4. A task is some panels for some rows. All tiles of rows multiply a block of weights, which is in a cache, and fetch
   the next block from memory meanwhile: reading and arithmetic are at work at once.
5. After each panel, bias, activation and residual are added to its results, which are still in a cache.

A sum runs over its inputs in their order, so results depend neither on tasks, threads nor on the other rows. Those of
int8 are exact: |x| |w| inputs < 2^31 up to MOST_INPUTS.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ...device.capture import CAPTURE
from ...device.cores import l1_cache_bytes, worker_threads
from ...device.low_precision import PANEL_HEADER as HEADER
from ...device.weight_blocks import aligned_zeros
from ...ops import Weight
from ...reference.activation import PLAIN
from .activation import activate, no_bias
from .atomics import bits_of, float_of
from .jit import njit
from .tasks import in_tasks
from .thread_pool import ALL_WORKERS, CALLER_ALONE, DONE, TASKS_PER_THREAD, parallel_for
from .tile import DOT, FLOAT, GROUP, LINES, MOST_ROWS, Kind, tile_of

F = np.float32
LARGE = F(1.5 * 2**23)  # float32 numbers near it are whole: adding it rounds, ties to even
LEAST = F(1e-35)  # rows whose numbers are all below it count as zeros: 127 divided by them would overflow
PANELS_BYTES = 2**19  # of a task that is not shared
ROWS = 48  # that go by before the next panel: a page of each row of results stays known to the processor
ROWS_OF_TASK = 192  # at most, where several threads share a product
# Steps of a panel that all tiles multiply before the next block. A first-level cache of 48 KB keeps 96 of them (24 KB)
# and the rows that meet them. One of 32 KB does not: there a block comes from the second level whatever its size, and
# a long one is better, since between blocks all sums are written and read again. Measured on a Zen 4 (32 KB), float32
# weights of GPT-2, two threads: 48 rows take 58 ms in place of 79, 1,024 rows 1.20 s in place of 1.34. With more than
# ROWS rows a block serves so many tiles that long ones are better with 48 KB as well: on an Emerald Rapids 64 rows are
# 7 % faster, 1,024 rows 8 to 14 %, and 16 rows 9 % slower.
BLOCK_IN_FIRST_LEVEL, LONG_BLOCK = 96, 768
BLOCK_OF_TWO = 256  # where two tiles share a block, and so fetch the next: 8 rows take 14.7 ms, with 768 steps 16.1
PREFETCH_STEPS = 32  # this many steps before weights are read, they are fetched, where no earlier tile can do it
ROWS_OF_ROUNDING = 16  # in a task
WORTH_TWO_TASKS = 2**20  # bytes of weights times rows, of which four take no longer than one


def pack_floats(weight: Weight) -> Weight:
    """The weight in panels: (panels, inputs, outputs of a panel), padded with zeros."""
    assert FLOAT is not None
    w_XX = weight.data if weight.layout == "oi" else weight.data.T
    (outputs, inputs), width = w_XX.shape, FLOAT.width
    panels, rest = -(-outputs // width), outputs // width * width
    data = aligned_zeros((panels, inputs, width), np.float32)
    data[: outputs // width] = w_XX[:rest].reshape(-1, width, inputs).transpose(0, 2, 1)
    if rest < outputs:
        data[-1, :, : outputs - rest] = w_XX[rest:].T
    return dataclasses.replace(weight, data=data, layout="panels", packed_outputs=outputs)


def pack_int8(weight: Weight, kind: Kind | None = DOT) -> Weight:
    """The weight in panels: (panels, HEADER + groups of 4 inputs, outputs of a panel, 4), padded with zeros."""
    assert kind is not None and weight.layout == "oi"
    outputs, inputs = weight.data.shape
    panels, steps = -(-outputs // kind.width), -(-inputs // GROUP)
    padded = np.zeros((panels * kind.width, steps * GROUP), np.int8)
    padded[:outputs, :inputs] = weight.data
    data = aligned_zeros((panels, HEADER + steps, kind.width, GROUP), np.int8)
    words = padded.view(np.int32).reshape(panels, kind.width, steps)  # four weights each
    data.view(np.int32)[:, HEADER:, :, 0] = words.transpose(0, 2, 1)
    begin_X, scale_X = np.zeros(panels * kind.width, np.int32), np.zeros(panels * kind.width, np.float32)
    begin_X[:outputs], scale_X[:outputs] = -kind.offset * weight.data.sum(1, dtype=np.int32), weight.scale
    for number, of_outputs in enumerate((begin_X, scale_X)):
        data[:, number] = of_outputs.view(np.int8).reshape(panels, kind.width, GROUP)
    return dataclasses.replace(weight, data=data, layout="panels", packed_outputs=outputs)


def round_rows(x_RX, largest, q_RX, scale_R):
    """Many rows of float32 to bytes and a scale each; tasks of some rows, on all threads."""
    parallel_for(_round_rows, -(-len(x_RX) // ROWS_OF_ROUNDING), (x_RX, F(largest), q_RX, scale_R), ALL_WORKERS)


@in_tasks()
def _round_rows(task, x_RX, largest, q_RX, scale_R):
    for r in range(task * ROWS_OF_ROUNDING, min((task + 1) * ROWS_OF_ROUNDING, len(x_RX))):
        scale_R[r] = _round_row(x_RX[r], largest, q_RX[r])
    return DONE


@njit(cache=True, nogil=True, error_model="numpy")
def _round_row(x_X, largest, q_X):
    """The row's scale; NaN if it holds a number that is not finite.

    The largest of |x| is found by its bits: whole numbers run on vectors, `max` of floats does not. Adding LARGE rounds
    to a whole number, which is then the last bits of the sum; LARGE's own are zero.
    """
    most = np.int32(0)
    for i in range(len(x_X)):
        most = max(most, bits_of(x_X[i]) & np.int32(0x7FFFFFFF))
    largest_here = float_of(most)
    inverse = largest / largest_here if largest_here > LEAST else F(0)
    for i in range(len(x_X)):
        q_X[i] = np.uint8(bits_of(x_X[i] * inverse + LARGE) + np.int32(OFFSET))
    for i in range(len(x_X), len(q_X)):
        q_X[i] = np.uint8(OFFSET)
    return largest_here / largest if largest_here <= F(3.4028235e38) else F(np.nan)


OFFSET = 0 if DOT is None else DOT.offset


def multiply_int8(x_RX, largest, q_RX, scale_R, weight: Weight, bias_X, code: int, y_RX, adds: bool) -> None:
    """y = act(x w + bias), or added to y. x and y are float32 and contiguous, with at least one row.

    x is rounded into q_RX and scale_R: few rows in the compiled call that shares out the product, many in tasks of
    their own before it, and so are those of a step that is captured. bias_X: None for none.
    """
    is_rounded = len(x_RX) > ROWS_OF_ROUNDING or CAPTURE.get() is not None
    if is_rounded:
        round_rows(x_RX, largest, q_RX, scale_R)
    ends = bias_X is not None or code != PLAIN or adds
    bias_X = no_bias(weight.outputs) if bias_X is None else bias_X
    arrays = x_RX, F(largest), is_rounded, q_RX, weight.data, scale_R, bias_X, y_RX, code, adds, ends
    _multiply_panels(_round_and_multiply_int8, weight, arrays)


def multiply_floats(x_RX, weight: Weight, y_RX, adds: bool = False, bias_X=None) -> None:
    """y = x w + bias, or added to y. x and y are float32 and contiguous, with at least one row. bias_X may be None."""
    ends = adds or bias_X is not None
    bias_X = no_bias(weight.outputs) if bias_X is None else bias_X
    _multiply_panels(_multiply_floats, weight, (x_RX, weight.data, bias_X, y_RX, adds, ends))


def _multiply_panels(function, weight, arrays) -> None:
    tasks, cut, workers = cut_into_tasks(len(arrays[0]), weight, weight.data.nbytes, ROWS_OF_TASK)
    parallel_for(function, tasks, (*arrays, *cut, steps_of_block(len(arrays[0]))), workers)


def steps_of_block(rows: int) -> int:
    """Long blocks for many rows; for few where the cache is small or its size not known: they lose less when wrong."""
    is_short = rows <= ROWS and (l1_cache_bytes() or 0) >= 48 * 1024
    return BLOCK_IN_FIRST_LEVEL if is_short else LONG_BLOCK


def cut_into_tasks(rows: int, weight: Weight, work: int, most_rows: int) -> tuple[int, tuple[int, int], int]:
    """(tasks, (panels of each, rows of each), which workers take them) of a product by a weight in panels.

    work: what a row costs, in bytes of WORTH_TWO_TASKS. most_rows: of a task, where several threads share the product.
    """
    panels, tasks = len(weight.data), work * max(rows, 4) // WORTH_TWO_TASKS
    panels_of_task, workers = max(1, min(panels, PANELS_BYTES // weight.data[0].nbytes)), CALLER_ALONE
    if tasks < 2:
        most_rows = rows
    else:
        an_even_share = panels // min(tasks, TASKS_PER_THREAD * worker_threads().number)
        panels_of_task, workers = max(1, min(panels_of_task, an_even_share)), ALL_WORKERS
    return -(-panels // panels_of_task) * -(-rows // most_rows), (panels_of_task, most_rows), workers


DOT_WIDTH, DOT_ROWS = (1, 1) if DOT is None else (DOT.width, DOT.rows)
FLOAT_WIDTH, FLOAT_ROWS = (1, 1) if FLOAT is None else (FLOAT.width, FLOAT.rows)
_one, _two, _three, _four, _five, _six = (tile_of(DOT, rows) for rows in range(1, MOST_ROWS + 1))
_one_f, _two_f, _three_f, _four_f, _five_f, _six_f = (tile_of(FLOAT, rows) for rows in range(1, MOST_ROWS + 1))


@njit(cache=True, nogil=True)
def _round_and_multiply_int8(tasks, table, x_RX, largest, is_rounded, q_RX, w_PSWG, scale_R, *rest):
    """Rounds the rows, unless they are rounded already, and queues the tasks of a product."""
    if not is_rounded:
        for r in range(len(x_RX)):
            scale_R[r] = _round_row(x_RX[r], largest, q_RX[r])
    return _multiply_int8(tasks, table, q_RX, w_PSWG, scale_R, *rest)


@in_tasks()
def _multiply_int8(task, q_RX, w_PSWG, scale_R, bias_X, y_RX, code, adds, ends, panels_of_task, rows_of_task, block):
    scale = np.int64(scale_R.ctypes.data)
    return _panels_for_rows(
        task, int8_tile, DOT_WIDTH, DOT_ROWS, HEADER, q_RX, w_PSWG, scale, bias_X, y_RX, code, adds, ends,
        panels_of_task, rows_of_task, block,
    )  # fmt: skip


@in_tasks()
def _multiply_floats(task, x_RX, w_PSW, bias_X, y_RX, adds, ends, panels_of_task, rows_of_task, steps_of_block):
    """No rows' scales, and no activation."""
    no_scale = np.int64(0)
    return _panels_for_rows(
        task, float_tile, FLOAT_WIDTH, FLOAT_ROWS, 0, x_RX, w_PSW, no_scale, bias_X, y_RX, PLAIN, adds, ends,
        panels_of_task, rows_of_task, steps_of_block,
    )  # fmt: skip


@njit(inline="always")
def _panels_for_rows(
    task, tile, width, most_rows, header, x_RX, w_PSW, scale, bias_X, y_RX, code, adds, ends, panels_of_task,
    rows_of_task, steps_of_block,
):  # fmt: skip
    """Some panels for some rows: block after block of weights, and for each all tiles of rows.

    A block is some steps of a panel. While the tiles multiply one block, each fetches its part of the next: so memory
    and arithmetic are at work at once. Results that lack nothing go where they belong; others, and those of a panel
    that is wider than the outputs left, go by way of `tile_RX`.
    """
    (rows, outputs), (panels, steps), row_bytes = y_RX.shape, w_PSW.shape[:2], x_RX.shape[1] * x_RX.itemsize
    x, w, y = np.int64(x_RX.ctypes.data), np.int64(w_PSW.ctypes.data), np.int64(y_RX.ctypes.data)
    tasks_of_panels = -(-panels // panels_of_task)
    p0, first = task % tasks_of_panels * panels_of_task, task // tasks_of_panels * rows_of_task
    p1, end_row = min(p0 + panels_of_task, panels), min(first + rows_of_task, rows)
    step_bytes, end_of_task = 4 * width, w + p1 * steps * 4 * width
    whole = 0 if ends else outputs // width  # panels whose results need no more
    tile_RX, spare_X = np.empty((ROWS, width), np.float32), np.empty(width, np.float32)
    for r0 in range(first, end_row, ROWS):
        r1 = min(r0 + ROWS, end_row)
        tiles = -(-(r1 - r0) // most_rows)
        rows_of_tile, parts = -(-(r1 - r0) // tiles), min(tiles, LINES)  # of the next block, each fetched by one tile
        size = min(steps_of_block, BLOCK_OF_TWO) if tiles == 2 else steps_of_block
        for p in range(p0, p1):
            head = w + p * steps * step_bytes
            to, to_row = np.int64(tile_RX.ctypes.data), np.int64(step_bytes)
            if p < whole:
                to, to_row = y + 4 * (r0 * outputs + p * width), 4 * outputs
            for k in range(header, steps, size):
                last = min(k + size, steps)
                block, next_block = head + k * step_bytes, head + last * step_bytes
                is_first, part = p == p0 and k == header, (last - k) * (step_bytes // parts)
                for t in range(tiles):
                    r = r0 + t * rows_of_tile
                    at = x + r * row_bytes + 4 * (k - header)
                    prefetch, prefetch_step = at, np.int64(0)  # nothing: what is there already
                    if tiles == 1 or (is_first and t == 0):
                        prefetch, prefetch_step = block + PREFETCH_STEPS * step_bytes, step_bytes
                    elif t < parts and next_block < end_of_task:
                        prefetch, prefetch_step = next_block + t * part, step_bytes // parts
                    tile(
                        min(rows_of_tile, r1 - r), at, row_bytes, block, last - k, head, scale + 4 * r,
                        to + (r - r0) * to_row, to_row, np.int64(k == header), np.int64(last == steps), prefetch,
                        prefetch_step,
                    )  # fmt: skip
            if p >= whole:
                o0, o1 = p * width, min((p + 1) * width, outputs)
                _finish_panel(tile_RX, bias_X, code, adds, spare_X, y_RX, r0, r1, o0, o1)
    return DONE


@njit(inline="always")
def int8_tile(rows, x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step):
    """The tile that has this many rows; tile.py has the arguments."""
    if rows == 6:
        _six(x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step)
    elif rows == 5:
        _five(x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step)
    elif rows == 4:
        _four(x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step)
    elif rows == 3:
        _three(x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step)
    elif rows == 2:
        _two(x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step)
    else:
        _one(x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step)


@njit(inline="always")
def float_tile(rows, x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step):
    """A tile of up to six rows by a panel, of float32."""
    if rows == 6:
        _six_f(x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step)
    elif rows == 5:
        _five_f(x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step)
    elif rows == 4:
        _four_f(x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step)
    elif rows == 3:
        _three_f(x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step)
    elif rows == 2:
        _two_f(x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step)
    else:
        _one_f(x, x_row, w, steps, head, scale, y, y_row, begins, ends, prefetch, prefetch_step)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _finish_panel(tile_RX, bias_X, code, adds, spare_X, y_RX, r0, r1, o0, o1):
    """What becomes of a panel's results, rows r0 to r1: bias, activation, and the residual or none."""
    bias_X, spare_X = bias_X[o0:o1], spare_X[: o1 - o0]
    for r in range(r0, r1):
        tile_X, y_X = tile_RX[r - r0, : o1 - o0], y_RX[r, o0:o1]
        if not adds:
            activate(tile_X, bias_X, code, y_X)
        elif code == PLAIN:
            for o in range(len(y_X)):
                y_X[o] += tile_X[o] + bias_X[o]
        else:
            activate(tile_X, bias_X, code, spare_X)
            for o in range(len(y_X)):
                y_X[o] += spare_X[o]
