"""Scores divided by a temperature.

1. A thread per score. Each divides to find its row.
2. The rows are the grid's first axis, which alone has room for more than 65,535, and a thread takes four columns, a
   block's width apart, so that neighbouring threads still read neighbouring scores: no thread divides but its scores.
3. Four loads and four stores of 128 bits for each thread, whatever the width of a row (common/rows.py): a quarter of
   the instructions ask for the same bytes, and all loads are on their way before the first division.

Floor: the bytes read and written at 2.4 TB/s; a launch in a graph, 1.1 us. Predicted 85 % of a copy's bandwidth on
1 GB, and 1.6 us for one row. Measured (H100, 2026-11-26): 114 %, and 2.0, 2.2, 3.5 and 11.2 us in a graph for 1, 4, 32
and 128 rows of 50,257 scores. Versions 1 and 2 reached 71 and 56 %.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

from ..device.launch import launch
from ..reference import scores_to_change
from .common.arrays import require_float32
from .common.grids import grid_of_rows
from .common.reduction import THREADS
from .common.rows import NOWHERE, bounds_of_share, load_four_before, unaligned_column_of
from .common.vector_load import wide_store

EACH = 4  # columns of a thread of version 2
SHARE = 16 * THREADS  # columns of a block of version 3


def apply_temperature_v1(scores_RV, temperature, out=None):
    """Divides all scores by the temperature, a thread per score.

    Launches `divide_each` in ceil(RV / 128) blocks of 128. Reads and writes 4RV bytes.
    """
    scores_RV, divisor = scores_to_change(require_float32(scores_RV), out), np.float32(temperature)
    launch(divide_each, -(-scores_RV.size // THREADS), THREADS, scores_RV, divisor)
    return scores_RV


@cuda.jit
def divide_each(scores_RV, divisor):
    """Divides one score; the thread divides to find its row as well.

    Grid ceil(RV / 128), block 128. A thread reads 4 bytes and writes 4.
    """
    i = cuda.grid(1)
    if i < scores_RV.size:
        r = i // scores_RV.shape[1]
        scores_RV[r, i - r * scores_RV.shape[1]] /= divisor


def apply_temperature_v2(scores_RV, temperature, out=None):
    """Divides all scores by the temperature, four scores a thread.

    Launches `divide_row` as (R, ceil(V / 512)) blocks of 128. Reads and writes 4RV bytes.
    """
    scores_RV, divisor = scores_to_change(require_float32(scores_RV), out), np.float32(temperature)
    launch(divide_row, grid_of_rows(scores_RV, EACH), THREADS, scores_RV, divisor)
    return scores_RV


@cuda.jit
def divide_row(scores_RV, divisor):
    """Divides four scores of a row, a block's width apart.

    Grid (R, ceil(V / 512)), block 128. A thread reads 16 bytes and writes 16.
    """
    r, first = cuda.blockIdx.x, cuda.blockIdx.y * THREADS * EACH + cuda.threadIdx.x
    for k in range(EACH):
        v = first + k * THREADS
        if v < scores_RV.shape[1]:
            scores_RV[r, v] /= divisor


def apply_temperature(scores_RV, temperature, out=None):
    """Divides all scores by the temperature, sixteen scores a thread, by 128-bit loads and stores.

    Version 3: `divide_share` as (R, ceil(V / 2048)) blocks of 128. Reads and writes 4RV bytes.
    """
    scores_RV, divisor = scores_to_change(require_float32(scores_RV), out), np.float32(temperature)
    launch(divide_share, grid_of_rows(scores_RV, SHARE // THREADS), THREADS, scores_RV, divisor)
    return scores_RV


@cuda.jit
def divide_share(scores_RV, divisor):
    """Divides the 2,048 scores of a block's share.

    Grid (R, ceil(V / 2048)), block 128. A thread reads up to 64 bytes and writes as many.
    """
    row_V, t = scores_RV[cuda.blockIdx.x], cuda.threadIdx.x
    begin, first, last, end = bounds_of_share(row_V, SHARE)
    v = first + 4 * t
    a, b = load_four_before(row_V, v, last), load_four_before(row_V, v + 4 * THREADS, last)
    c, d = load_four_before(row_V, v + 8 * THREADS, last), load_four_before(row_V, v + 12 * THREADS, last)
    store_four_divided(row_V, v, last, a, divisor)
    store_four_divided(row_V, v + 4 * THREADS, last, b, divisor)
    store_four_divided(row_V, v + 8 * THREADS, last, c, divisor)
    store_four_divided(row_V, v + 12 * THREADS, last, d, divisor)
    column = unaligned_column_of(t, begin, first, last, end)
    if column != NOWHERE:
        row_V[column] /= divisor


@cuda.jit(device=True)
def store_four_divided(row_V, v, last, four, divisor):
    """Stores four scores divided by the temperature from column v on, if v is before `last`."""
    if v < last:
        w, x, y, z = four
        wide_store(row_V, v, w / divisor, x / divisor, y / divisor, z / divisor)


# What each kernel is compiled and type-checked for, without a GPU.
SIGNATURES = {kernel: [(float32[:, ::1], float32)] for kernel in (divide_each, divide_row, divide_share)}
