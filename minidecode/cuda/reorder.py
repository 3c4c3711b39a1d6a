"""Following the beams: a row goes on from what another one held (LightSeq's cache refreshing, section 3.2).

The hazard is that rows change places: who writes a row before everybody has read it has lost it, and no barrier
orders the blocks of a launch. So either the result goes elsewhere, or what depends on each other stays in one block.

1. A thread per word, into a second buffer, and back: whatever order the threads take, none writes what another one
   reads. All rows are copied, twice. LightSeq saves the way back by two buffers that change places after each step
   (that is `out`), and pays with twice the memory.
2. In place, and only what moves: a block owns 32 words of all rows. It reads every row that is needed into shared
   memory, waits, and writes. No other thread touches these words, so the one barrier is enough; each word that moves is
   read once and written once.

Floor: the bytes that move, read and written, at 2.4 TB/s; a launch in a graph, 1.1 us, where nothing moves. Predicted
for a step: 1.6 us where nothing moves and 2.1 us where rows do, for a word waits for its parent. Predicted for 1 GB:
55 % of a copy's bandwidth (the goal is 85 %): each load is of 4 bytes, as in version 2 of beam_scores.py, which reached
56 %. Not measured by itself.

Bits move, whatever they stand for: keys and values of any type are handed over as words of 32 bits, or of 16.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, int64, uint16, uint32

from ..device.launch import launch
from ..errors import OptionError

WORDS = 32  # of each row in a block of version 2: the lanes of a warp read neighbouring words
MOST_WARPS = 32  # of a block
ROWS = 256  # that version 2 has room for: 32 KiB of shared memory


def reorder_cache_v1(k_RGMX, parent_R, length_R, out=None, *, threads=128):
    """Moves each row's written positions from its parent's row, by a second buffer and back.

    Launches `copy_from_parents` in ceil(words / threads) blocks, for all words of the cache. Reads and writes the whole
    cache, and again for the way back; with `out` once.
    """
    target = np.empty_like(k_RGMX) if out is None else out
    words_RGX, width = _words(k_RGMX)
    launch(
        copy_from_parents, -(-words_RGX.size // threads), threads,
        words_RGX, parent_R, length_R, width, _words(target)[0],
    )  # fmt: skip
    if out is not None:
        return out
    k_RGMX[...] = target
    return k_RGMX


@cuda.jit
def copy_from_parents(words_RGX, parent_R, length_R, width, target_RGX):
    """Copies one word of the cache from the parent's row, or from the row itself behind what is written.

    Any grid of as many threads as the cache has words. A thread reads a word and 16 bytes, and writes a word.
    """
    R, G, X = words_RGX.shape
    i = cuda.grid(1)
    if i < R * G * X:
        r, g, x = i // (G * X), i // X % G, i % X
        source = parent_R[r] if x < length_R[r] * width else r
        target_RGX[r, g, x] = words_RGX[source, g, x]


def reorder_cache(k_RGMX, parent_R, length_R, out=None, *, warps=None):
    """Moves each row's written positions from its parent's row, in place; a block has 32 words of all rows.

    Version 2: `move_in_place` as (ceil(words of a head / 32), G) blocks of (32, warps). Reads and writes each word that
    moves once. More rows than fit take version 1. warps: of a block; by default a few rows for each.
    """
    if len(parent_R) > ROWS:
        return reorder_cache_v1(k_RGMX, parent_R, length_R, out)
    if out is not None:
        out[...] = k_RGMX
        k_RGMX = out
    words_RGX, width = _words(k_RGMX)
    _, G, X = words_RGX.shape
    warps = min(MOST_WARPS, max(8, len(parent_R) // 2)) if warps is None else warps
    launch(move_in_place, (-(-X // WORDS), G), (WORDS, warps), words_RGX, parent_R, length_R, width)
    return k_RGMX


@cuda.jit
def move_in_place(words_RGX, parent_R, length_R, width):
    """Reads 32 words of every row that another goes on from into shared memory, waits, and writes them.

    Grid (ceil(words of a head / 32), G), block (32, warps); 32 KiB of shared memory. Reads and writes each word that
    moves once, and 16 bytes a row.
    """
    held = cuda.shared.array((ROWS, WORDS), uint32)
    g, lane = cuda.blockIdx.y, cuda.threadIdx.x
    x = cuda.blockIdx.x * WORDS + lane
    rows = parent_R.size if x < words_RGX.shape[2] else 0  # whatever a length says: there is no word behind the last
    for r in range(cuda.threadIdx.y, rows, cuda.blockDim.y):
        if parent_R[r] != r and x < length_R[r] * width:
            held[r, lane] = words_RGX[parent_R[r], g, x]
    cuda.syncthreads()  # all that is needed has been read: now it may be overwritten
    for r in range(cuda.threadIdx.y, rows, cuda.blockDim.y):
        if parent_R[r] != r and x < length_R[r] * width:
            words_RGX[r, g, x] = held[r, lane]


def _words(k_RGMX):
    """(words_RGX, width): the same memory as words, and how many of them a position takes."""
    if not k_RGMX.flags.c_contiguous:
        raise OptionError(
            "the kernels of cuda/reorder.py move memory that lies in one piece: this is a part of another"
        )
    (R, G, _, X), size = k_RGMX.shape, k_RGMX.itemsize
    word = np.dtype(np.uint32 if X * size % 4 == 0 else np.uint16)
    return k_RGMX.view(word).reshape(R, G, -1), X * size // word.itemsize


# What each kernel is compiled and type-checked for, without a GPU: numbers of 4 bytes, and an odd number of halves.
_WORDS, _HALVES, _ROW = uint32[:, :, ::1], uint16[:, :, ::1], int64[::1]
SIGNATURES = {
    copy_from_parents: [(words, _ROW, _ROW, int64, words) for words in (_WORDS, _HALVES)],
    move_in_place: [(words, _ROW, _ROW, int64) for words in (_WORDS, _HALVES)],
}
LARGEST_BLOCK = {move_in_place: WORDS * MOST_WARPS}
REGISTERS = {move_in_place: 56}  # its shared memory leaves room for fewer blocks than these do
