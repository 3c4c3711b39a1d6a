"""Grids of the launches in which a thread has a number, or a few."""

from __future__ import annotations

from ...device.launch import launch
from .reduction import THREADS

WALKED = 4  # rows that a thread of `grid_of_columns` walks down
MOST_BLOCKS = 65_535  # of a grid's second axis


def launch_thread_per_number(kernel, result, *others):
    """Launches a thread for each number of the result, which is the kernel's first argument."""
    launch(kernel, -(-result.size // THREADS), THREADS, result, *others)


def grid_of_rows(x_RX, each=1):
    """(R, blocks of a row): each thread has `each` numbers. Rows come first: no thread divides to find its own."""
    R, X = x_RX.shape
    return R, -(-X // (THREADS * each))


def grid_of_columns(columns, rows):
    """(blocks of columns, blocks of rows): a thread per column, which walks down WALKED rows, or more of many."""
    return -(-columns // THREADS), min(-(-rows // WALKED), MOST_BLOCKS)
