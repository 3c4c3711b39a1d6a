"""Following the beams: a row goes on from what another one held (LightSeq's cache refreshing, section 3.2).

The hazard is that rows change places: who writes a row before everybody has read it has lost it, and no barrier
orders the blocks of a launch. So either the result goes elsewhere, or what depends on each other stays in one block.

1. A thread per word, into a second buffer, and back: whatever order the threads take, none writes what another one
   reads. All rows are copied, twice. LightSeq saves the way back by two buffers that change places after each step
   (that is `out`), and pays with twice the memory.
2. In place, and only what moves: a block owns 32 words of all rows. It reads every row that is needed into shared
   memory, waits, and writes. No other thread touches these words, so the one barrier is enough; each word that moves is
   read once and written once.
3. 128-bit loads and stores, and registers in place of shared memory: a thread has 16 bytes of up to eight rows. It
   reads all parents first and then all words, so that two waits are enough for eight loads; version 2 waits for each.
   Positions that are no whole 16 bytes take version 2.

Floor: the bytes that move, read and written, at 2.4 TB/s; a launch in a graph, 1.1 us, where nothing moves. Predicted
for a step: 1.6 us where nothing moves and 2.1 us where rows do, for a word waits for its parent. On 1 GB,
128 rows of which three quarters move, the goal is 85 % of a copy's bandwidth, and `minidecode predict reorder` gives
75 %: memory alone allows 103 %, L2 189 %, L1 190 %, instructions 246 %, waits 278 %. So L1 and L2, which each word
passes twice, are in the way: memory and these two allow 82 %. For version 2 it gives 12 %. Not measured by itself.

Bits move, whatever they stand for: keys and values of any type are handed over as words of 32 bits, or of 16.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, int32, int64, uint16, uint32

from ..device.arrays import address_of
from ..device.launch import launch
from ..errors import OptionError
from .common.cache_load import load_16_bytes, store_16_bytes

WORDS = 32  # of each row in a block of version 2: the lanes of a warp read neighbouring words
MOST_WARPS = 32  # of a block
ROWS = 256  # of version 2: 32 KiB of shared memory; of version 3: 32 warps of 8 rows
KEPT = ROWS // MOST_WARPS  # rows of a thread of version 3
TOGETHER = 4  # words of 32 bits that it loads at once
WORDS_KEPT = KEPT * TOGETHER
STAYS = int32(-1)  # the source of a row that goes on from itself


def reorder_cache_v1(k_RGMX, parent_R, length_R, out=None, *, threads=128):
    """Moves each row's written positions from its parent's row, by a second buffer and back.

    Launches `copy_from_parents` in ceil(words / threads) blocks, for all words of the cache. Reads and writes the whole
    cache, and again for the way back; with `out` once.
    """
    target = np.empty_like(k_RGMX) if out is None else out
    words_RGX, width = _view_as_words(k_RGMX)
    launch(
        copy_from_parents, -(-words_RGX.size // threads), threads,
        words_RGX, parent_R, length_R, width, _view_as_words(target)[0],
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


def reorder_cache_v2(k_RGMX, parent_R, length_R, out=None, *, warps=None):
    """Moves each row's written positions from its parent's row, in place; a block has 32 words of all rows.

    Version 2: `move_in_place` as (ceil(words of a head / 32), G) blocks of (32, warps). Reads and writes each word that
    moves once. More rows than fit take version 1. warps: of a block; by default a few rows for each.
    """
    if len(parent_R) > ROWS:
        return reorder_cache_v1(k_RGMX, parent_R, length_R, out)
    if out is not None:
        out[...] = k_RGMX
        k_RGMX = out
    words_RGX, width = _view_as_words(k_RGMX)
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


def reorder_cache(k_RGMX, parent_R, length_R, out=None):
    """Moves each row's written positions from its parent's row, in place; a thread has 16 bytes of up to eight rows.

    Version 3: `move_in_registers` as (ceil(bytes of a head / 512), G) blocks of (32, max(ceil(R / 8), min(R, 8))).
    Reads and writes each word that moves once. Version 2 if a position is no multiple of 16 bytes, the cache does not
    begin at one, or there are more than 256 rows.
    """
    R, target = len(parent_R), k_RGMX if out is None else out
    if R > ROWS or k_RGMX.shape[3] * k_RGMX.itemsize % 16 or address_of(target) % 16:
        return reorder_cache_v2(k_RGMX, parent_R, length_R, out)
    if out is not None:
        out[...] = k_RGMX
    words_RGX, width = _view_as_words(target)
    _, G, X = words_RGX.shape
    warps = max(-(-R // KEPT), min(R, KEPT))  # few rows have a warp each
    arrays = words_RGX, parent_R, length_R, np.int32(width // TOGETHER)
    launch(move_in_registers, (-(-X // (WORDS * TOGETHER)), G), (WORDS, warps), *arrays)
    return target


@cuda.jit
def move_in_registers(words_RGX, parent_R, length_R, width):
    """Reads 16 bytes of each row that another goes on from into registers, waits for the block, and writes them.

    Grid (ceil(bytes of a head / 512), G), block (32, warps). Reads and writes each word that moves once, and 16 bytes a
    row. width: 16 bytes that a position takes.
    """
    kept, source = cuda.local.array(WORDS_KEPT, int32), cuda.local.array(KEPT, int32)
    x, G = int32(cuda.blockIdx.x * WORDS + cuda.threadIdx.x), int32(words_RGX.shape[1])
    fours = int32(words_RGX.shape[2] // TOGETHER)  # of a row's head
    rows, first, step = int32(parent_R.size), int32(cuda.threadIdx.y), int32(cuda.blockDim.y)
    row_of_words, mine = int32(G * fours), int32(cuda.blockIdx.y) * fours + x
    for i in range(KEPT):
        r = min(int32(first + i * step), int32(rows - 1))  # no branch: all loads are under way at once
        parent, end = int32(parent_R[r]), min(int32(length_R[r]) * width, fours)  # whatever a length says
        source[i] = parent if (int32(first + i * step) < rows) & (parent != r) & (x < end) else STAYS
    for i in range(KEPT):
        if source[i] != STAYS:
            place = TOGETHER * (int64(source[i]) * int64(row_of_words) + mine)
            a, b, c, d = load_16_bytes(words_RGX, place)
            kept[4 * i], kept[4 * i + 1], kept[4 * i + 2], kept[4 * i + 3] = a, b, c, d
    cuda.syncthreads()  # all that is needed has been read: now it may be overwritten
    for i in range(KEPT):
        if source[i] != STAYS:
            place = TOGETHER * (int64(int32(first + i * step)) * int64(row_of_words) + mine)
            store_16_bytes(words_RGX, place, kept[4 * i], kept[4 * i + 1], kept[4 * i + 2], kept[4 * i + 3])


def _view_as_words(k_RGMX):
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
    move_in_registers: [(_WORDS, _ROW, _ROW, int32)],
}
LARGEST_BLOCK = dict.fromkeys((move_in_place, move_in_registers), WORDS * MOST_WARPS)
REGISTERS = {
    move_in_place: 56,  # its shared memory leaves room for fewer blocks than these do
    move_in_registers: 64,  # 32 of them are what it moves
}
