"""Copies of pages: a row that is about to write a page that others hold gets a page of its own first (copy on write).

1. A block per row and 128 words of a page. A row whose page stays its own ends at once, so that every step launches the
   same grid. No page is both read and written in a launch, so blocks need no order.

Floor: the pages that are copied, read and written, at 2.4 TB/s; a launch in a graph, 1.1 us, where none is. Predicted
1.6 us where none is and 2.1 us where few are: a word waits for the numbers of its pages. Not measured.

Bits move, whatever they stand for: keys and values of any type are handed over as words of 32 bits, or of 16.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, int64, uint16, uint32

from ..device.launch import launch
from ..errors import OptionError
from .common.reduction import THREADS


def copy_pages(k_XGMX, source_R, target_R, out=None):
    """Copies page source_R[r] to page target_R[r] where the two differ.

    Version 1: `copy_page_of_row` as (R, ceil(words of a page / 128)) blocks of 128. Reads and writes each copied page
    once, and reads 16R bytes. Raises OptionError where pages do not lie in one piece.
    """
    if out is not None:
        out[...] = k_XGMX
        k_XGMX = out
    if not k_XGMX.flags.c_contiguous:
        raise OptionError("the kernel of cuda/pages.py copies pages that lie in one piece: this is a part of others")
    word = np.dtype(np.uint32 if k_XGMX.shape[3] * k_XGMX.itemsize % 4 == 0 else np.uint16)
    words_XX = k_XGMX.view(word).reshape(len(k_XGMX), -1)
    launch(copy_page_of_row, (len(source_R), -(-words_XX.shape[1] // THREADS)), THREADS, words_XX, source_R, target_R)
    return k_XGMX


@cuda.jit
def copy_page_of_row(words_XX, source_R, target_R):
    """Copies one word of a row's page, if the page is to be another.

    Grid (R, ceil(words of a page / 128)), block 128. A thread reads a word and 16 bytes, and writes a word.
    """
    r, x = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    if x < words_XX.shape[1] and source_R[r] != target_R[r]:
        words_XX[target_R[r], x] = words_XX[source_R[r], x]


# What the kernel is compiled and type-checked for, without a GPU: numbers of 4 bytes, and an odd number of halves.
SIGNATURES = {copy_page_of_row: [(words, int64[::1], int64[::1]) for words in (uint32[:, ::1], uint16[:, ::1])]}
