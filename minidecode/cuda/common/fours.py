"""Four neighbouring columns of several rows in the registers of a thread: pieces of the kernels that move rows.

All loads of a thread are under way before its first store: 16 bytes for each of its rows. Rows behind the last one are
loaded as the last one, so that no load waits for a branch.
"""

from __future__ import annotations

from numba import cuda, float32, int64

from ...device.arrays import address_of
from .vector_load import wide_load, wide_store

ROWS = 4  # of a thread
KEPT = 4 * ROWS  # its numbers
THREADS = 128  # of a block, side by side


def grid_of_fours(R: int, X: int) -> tuple[int, int]:
    """Rows are the grid's first axis, which is the one without an early end."""
    return -(-R // ROWS), -(-X // (4 * THREADS))


def are_whole_fours(*arrays) -> bool:
    """Whether the last axes of all of them are whole fours, and each four begins where a wide load or store can.

    An array without numbers does not count: a bias that is not there, parts without columns.
    """
    return all(
        a.shape[-1] % 4 == 0
        and a.strides[-1] == a.itemsize
        and all(start % (4 * a.itemsize) == 0 for start in (address_of(a), *a.strides[:-1]))
        for a in arrays
        if a.size
    )


@cuda.jit(device=True)
def load_fours(kept, x_RX, bias_X, c, b):
    """Columns c to c + 3 of this block's rows, and bias_X[b] and the three behind it added, if there is a bias."""
    last, first = x_RX.shape[0] - 1, cuda.blockIdx.x * ROWS
    e = f = g = h = float32(0)
    if bias_X.shape[0] > 0:
        e, f, g, h = wide_load(bias_X, b)
    for i in range(ROWS):
        w, x, y, z = wide_load(x_RX[min(int64(first + i), last)], c)
        kept[4 * i], kept[4 * i + 1], kept[4 * i + 2], kept[4 * i + 3] = w + e, x + f, y + g, z + h


@cuda.jit(device=True)
def store_fours(x_RX, c, kept):
    """They are this block's rows of x from column c on."""
    for i in range(ROWS):
        r = cuda.blockIdx.x * ROWS + i
        if r < x_RX.shape[0]:
            wide_store(x_RX[r], c, kept[4 * i], kept[4 * i + 1], kept[4 * i + 2], kept[4 * i + 3])
