"""Ops that only move data: one thread per word, and neighbouring threads move neighbouring words.

1. The rows are the grid's first axis, so that no thread divides to find its row. What is read in a piece is written in
   a piece. Words are as wide as numbers and rows let them be, at most 64 bits: four halves of a key at once.
   `concat_step` alone looks at numbers: the new position is cut off at the cache's range, as in append.py.

Floor: the bytes read and written at 2.4 TB/s; for few rows a launch in a graph, 1.1 us. Predicted 2.1 us for few rows,
for a row waits for its number, and 75 % of a copy's bandwidth on 1 GB: words of 8 bytes lie between the 56 % of words
of 4 and the 97 % of words of 16 in beam_scores.py. Not measured by itself.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int64, types, uint8, uint16, uint32, uint64

from ..device.arrays import address_of
from ..device.launch import launch
from ..device.low_precision import largest_stored_number
from ..errors import OptionError
from ..reference import empty, view_as_rows
from .common.cut_off import cut_off

THREADS = 128
WORDS = uint64, uint32, uint16, uint8


def gather_rows(x_RX, pick_R, out=None):
    """Copies rows pick_R of x_RX, in words as wide as rows allow.

    Launches `copy_rows` as (rows, ceil(words of a row / 128)) blocks of 128. Reads and writes each byte of the result
    once, and 8 of pick_R a word.
    """
    if out is None:
        out = empty(x_RX, (len(pick_R), *x_RX.shape[1:]))
    words_RX, picked_RX = view_rows_as_words(x_RX, out)
    launch(copy_rows, (len(pick_R), -(-words_RX.shape[1] // THREADS)), THREADS, words_RX, pick_R, picked_RX)
    return out


@cuda.jit
def copy_rows(words_RX, pick_R, picked_RX):
    """Copies one word of the row that pick_R names.

    Grid (rows, ceil(words of a row / 128)), block 128. A thread reads a word and 8 bytes, and writes a word.
    """
    r, x = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    if x < picked_RX.shape[1]:
        picked_RX[r, x] = words_RX[pick_R[r], x]


def view_rows_as_words(*arrays):
    """A view of each array's rows as words of 64 bits, or as narrower ones where a row begins or ends within one."""
    return view_as_words(*map(view_as_rows, arrays))


def view_as_words(*arrays):
    """The arrays with their last axis in words, for all arrays the same; writing goes through the views.

    A GPU reads no word that lies across two.
    """
    common = math.gcd(*(n for a in arrays for n in (address_of(a), *a.strides[:-1], a.shape[-1] * a.itemsize)))
    word = next(w for w in WORDS if common % np.dtype(w.name).itemsize == 0)
    return [array.view(word.name) for array in arrays]


def pad_left(k_RGX, offsets_X, N=None, out=None):
    """Lays the rows of each sentence at the end of its N positions, zeros in front.

    Launches `copy_or_pad` as (BN, ceil(GX / 128)) blocks of 128, X in words. Reads each row once and writes sBGNX
    bytes; s: bytes of a number.
    """
    _, G, X = k_RGX.shape
    if out is None:
        N = int((offsets_X[1:] - offsets_X[:-1]).max()) if N is None else N
        out = np.empty_like(k_RGX, order="C", shape=(len(offsets_X) - 1, G, N, X))
    B, _, N, _ = out.shape
    words_RGX, padded_BGNX = view_as_words(k_RGX if k_RGX.strides[-1] == k_RGX.itemsize else k_RGX.copy(), out)
    launch(copy_or_pad, (B * N, -(-G * words_RGX.shape[2] // THREADS)), THREADS, words_RGX, offsets_X, padded_BGNX)
    return out


@cuda.jit
def copy_or_pad(k_RGX, offsets_X, out_BGNX):
    """Copies one word of position n of sentence b, or writes 0 in front of the sentence.

    Grid (BN, ceil(GX / 128)), block 128. A thread reads 16 bytes of offsets and a word, and writes a word.
    """
    _, G, N, X = out_BGNX.shape
    b, n, i = cuda.blockIdx.x // N, cuda.blockIdx.x % N, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    if i < G * X:
        r = offsets_X[b + 1] - N + n  # sentences end side by side
        if r >= offsets_X[b]:
            out_BGNX[b, i // X, n, i % X] = k_RGX[r, i // X, i % X]
        else:
            out_BGNX[b, i // X, n, i % X] = 0


def concat_step(k_RGMX, k_RGX, out=None):
    """A cache that is one position longer: all positions copied, and the new one behind them.

    Launches `copy_and_append` in RG(M + 1) blocks of 128. Reads sRGMX + 4RGX bytes and writes sRG(M + 1)X; s: bytes of
    a number of the cache.
    """
    R, G, M, X = k_RGMX.shape
    for array, may_be in ((k_RGMX, (np.float32, np.float16)), (k_RGX, (np.float32,))):
        if array.dtype not in may_be:
            raise OptionError(f"the kernels of cuda/move.py take no position of {array.dtype}: the reference does")
    if out is None:
        out = np.empty_like(k_RGMX, order="C", shape=(R, G, M + 1, X))
    launch(copy_and_append, R * G * (M + 1), THREADS, k_RGMX, k_RGX, largest_stored_number(k_RGMX.dtype), out)
    return out


@cuda.jit
def copy_and_append(k_RGMX, k_RGX, largest, out_RGMX):
    """Copies position m of a row and head, or cuts off and appends the new one.

    Grid RG(M + 1), block 128. A block reads and writes X numbers.
    """
    _, G, M, X = k_RGMX.shape
    row, m = cuda.blockIdx.x // (M + 1), cuda.blockIdx.x % (M + 1)  # a grid's other axes end at 65,535
    r, g = row // G, row % G
    for x in range(cuda.threadIdx.x, X, THREADS):
        if m < M:
            out_RGMX[r, g, m, x] = k_RGMX[r, g, m, x]
        else:
            out_RGMX[r, g, m, x] = cut_off(k_RGX[r, g, x], largest)


# What each kernel is compiled and type-checked for, without a GPU.
_CACHES = (float32[:, :, :, ::1], types.float16[:, :, :, ::1])
SIGNATURES = {
    copy_rows: [(rows_RX, int64[::1], rows_RX) for word in WORDS for rows_RX in (word[:, ::1], word[:, :])],
    copy_or_pad: [(word[:, :, ::1], int64[::1], word[:, :, :, ::1]) for word in (uint64, uint16)],
    copy_and_append: [(memory, float32[:, :, ::1], float32, memory) for memory in _CACHES],
}
