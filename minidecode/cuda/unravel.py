"""Columns of a sentence's candidates as beams and tokens, so that they need not come back to the host for it.

1. A thread per candidate: one division of whole numbers, and a product for what is left.

Floor: a launch in a graph, 1.1 us. Predicted 1.7 us: one load waits, and a 64-bit division. Not measured by itself.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, int64

from ..device.launch import launch


def unravel_candidates(index_BC, V, out=None, *, threads=128):
    """The beam and the token of each candidate's column index_BC.

    Launches `split_each_column` in ceil(BC / threads) blocks. Reads 8BC bytes and writes 16BC.
    """
    parent_BC, token_BC = out = (np.empty_like(index_BC), np.empty_like(index_BC)) if out is None else out
    launch(split_each_column, -(-index_BC.size // threads), threads, index_BC, V, parent_BC, token_BC)
    return out


@cuda.jit
def split_each_column(index_BC, V, parent_BC, token_BC):
    """Divides one column by V: the quotient is its beam, the rest its token.

    Any grid of BC threads. A thread reads 8 bytes and writes 16.
    """
    i = cuda.grid(1)
    if i < index_BC.size:
        b, c = i // index_BC.shape[1], i % index_BC.shape[1]
        parent = index_BC[b, c] // V
        parent_BC[b, c], token_BC[b, c] = parent, index_BC[b, c] - parent * V


# What each kernel is compiled and type-checked for, without a GPU.
SIGNATURES = {split_each_column: [(int64[:, ::1], int64, int64[:, ::1], int64[:, ::1])]}
