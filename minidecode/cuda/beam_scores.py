"""Log-probabilities become scores of whole texts.

1. A thread per score. Each divides to find its row, and loads the row's running score.
2. The rows are the grid's first axis: a thread loads the running score once, for the four columns that it takes.
3. Four loads and four stores of 128 bits for each thread, as in version 3 of temperature.py.

Floor: the bytes read and written at 2.4 TB/s; a launch in a graph, 1.1 us. Predicted 85 % of a copy's bandwidth on
1 GB, and 1.6 us for one row. Measured (H100, 2026-11-26): 97 %, and 1.5, 1.8, 3.5 and 11.5 us in a graph for 1, 4, 32
and 128 rows of 50,257 scores, which lie in the L2 cache. Versions 1 and 2 reached 70 and 56 %, and took 31.7 and
15.0 us for 128 rows.
"""

from __future__ import annotations

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


def add_beam_scores_v1(scores_RV, running_R, out=None):
    """Adds running_R[r] to all scores of row r, a thread per score.

    Launches `add_to_each` in ceil(RV / 128) blocks of 128. Reads 8RV bytes, a running score for each, and writes 4RV.
    """
    scores_RV = scores_to_change(require_float32(scores_RV), out)
    launch(add_to_each, -(-scores_RV.size // THREADS), THREADS, scores_RV, running_R)
    return scores_RV


@cuda.jit
def add_to_each(scores_RV, running_R):
    """Adds its row's running score to one score; the thread divides to find the row.

    Grid ceil(RV / 128), block 128. A thread reads 8 bytes and writes 4.
    """
    i = cuda.grid(1)
    if i < scores_RV.size:
        r = i // scores_RV.shape[1]
        scores_RV[r, i - r * scores_RV.shape[1]] += running_R[r]


def add_beam_scores_v2(scores_RV, running_R, out=None):
    """Adds running_R[r] to all scores of row r, four scores a thread.

    Launches `add_to_row` as (R, ceil(V / 512)) blocks of 128. Reads 5RV bytes and writes 4RV.
    """
    scores_RV = scores_to_change(require_float32(scores_RV), out)
    launch(add_to_row, grid_of_rows(scores_RV, EACH), THREADS, scores_RV, running_R)
    return scores_RV


@cuda.jit
def add_to_row(scores_RV, running_R):
    """Adds the row's running score to four scores, a block's width apart.

    Grid (R, ceil(V / 512)), block 128. A thread reads 20 bytes and writes 16.
    """
    r, first = cuda.blockIdx.x, cuda.blockIdx.y * THREADS * EACH + cuda.threadIdx.x
    running = running_R[r]
    for k in range(EACH):
        v = first + k * THREADS
        if v < scores_RV.shape[1]:
            scores_RV[r, v] += running


def add_beam_scores(scores_RV, running_R, out=None):
    """Adds running_R[r] to all scores of row r, sixteen scores a thread, by 128-bit loads and stores.

    Version 3: `add_to_share` as (R, ceil(V / 2048)) blocks of 128. Reads 4.25RV bytes and writes 4RV.
    """
    scores_RV = scores_to_change(require_float32(scores_RV), out)
    launch(add_to_share, grid_of_rows(scores_RV, SHARE // THREADS), THREADS, scores_RV, running_R)
    return scores_RV


@cuda.jit
def add_to_share(scores_RV, running_R):
    """Adds the row's running score to the 2,048 scores of a block's share.

    Grid (R, ceil(V / 2048)), block 128. A thread reads 4 bytes and up to 64 of scores, and writes as many scores.
    """
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    row_V, running = scores_RV[r], running_R[r]
    begin, first, last, end = bounds_of_share(row_V, SHARE)
    v = first + 4 * t
    a, b = load_four_before(row_V, v, last), load_four_before(row_V, v + 4 * THREADS, last)
    c, d = load_four_before(row_V, v + 8 * THREADS, last), load_four_before(row_V, v + 12 * THREADS, last)
    store_four_sums(row_V, v, last, a, running)
    store_four_sums(row_V, v + 4 * THREADS, last, b, running)
    store_four_sums(row_V, v + 8 * THREADS, last, c, running)
    store_four_sums(row_V, v + 12 * THREADS, last, d, running)
    column = unaligned_column_of(t, begin, first, last, end)
    if column != NOWHERE:
        row_V[column] += running


@cuda.jit(device=True)
def store_four_sums(row_V, v, last, four, running):
    """Stores four scores plus the running score from column v on, if v is before `last`."""
    if v < last:
        w, x, y, z = four
        wide_store(row_V, v, w + running, x + running, y + running, z + running)


# What each kernel is compiled and type-checked for, without a GPU.
SIGNATURES = {kernel: [(float32[:, ::1], float32[::1])] for kernel in (add_to_each, add_to_row, add_to_share)}
