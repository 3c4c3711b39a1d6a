"""The texts of a beam search follow their parents and get their new tokens (LightSeq's `ker_refresh_result`).

As in reorder.py, who writes a text before everybody has read it has lost it. Here it is the texts of one sentence
alone that depend on each other, so a block can own them.

1. A thread per position, into a second array, and back: all texts are copied whole, twice. LightSeq leaves out the way
   back, for its two tables change places after each step.
2. In place, and only what moves: a block owns 32 positions of all texts of a sentence. It reads what is needed into
   shared memory, waits, and writes. The new token comes from no text, so it needs no waiting; its position
   belongs to one block, which writes it beside the others.

Floor: a launch in a graph, 1.1 us; a step of 32 sentences moves 0.2 MB. Predicted 2.3 us: a token waits for its parent,
and a barrier follows. Not measured by itself.

A text as long as its room gets no token: `extend_sequences` and `update_beams` say that it is full.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, int64

from ..device.launch import launch

POSITIONS = 32  # of each text in a block of version 2: the lanes of a warp read neighbouring tokens
BEAMS = 64  # that version 2 has room for: 16 KiB of shared memory


def update_sequences_v1(text_BWM, parent_BW, token_BW, length_B, out=None, *, threads=128):
    """Each text goes on from its parent and gets its new token, by a second array and back.

    Launches `copy_with_tokens` in ceil(BWM / threads) blocks. Reads and writes 8BWM bytes, and again for the way back;
    with `out` once.
    """
    target_BWM = np.empty_like(text_BWM) if out is None else out
    arrays = text_BWM, parent_BW, token_BW, length_B, target_BWM
    launch(copy_with_tokens, -(-text_BWM.size // threads), threads, *arrays)
    if out is not None:
        return out
    text_BWM[...] = target_BWM
    return text_BWM


@cuda.jit
def copy_with_tokens(text_BWM, parent_BW, token_BW, length_B, target_BWM):
    """Copies one position of a text from its parent's, or writes the new token.

    Any grid of BWM threads. A thread reads 24 bytes and writes 8.
    """
    B, W, M = text_BWM.shape
    i = cuda.grid(1)
    if i < B * W * M:
        b, w, m = i // (W * M), i // M % W, i % M
        if m == length_B[b]:
            target_BWM[b, w, m] = token_BW[b, w]
        else:
            source = parent_BW[b, w] if m < length_B[b] else w
            target_BWM[b, w, m] = text_BWM[b, source, m]


def update_sequences(text_BWM, parent_BW, token_BW, length_B, out=None, *, warps=4):
    """Each text goes on from its parent and gets its new token, in place; a block has 32 positions of a sentence.

    Version 2: `refresh_in_place` as (B, ceil(M / 32)) blocks of (32, warps). Reads and writes 8 bytes for each token
    that moves, and writes 8BW of new ones. More beams than fit take version 1.
    """
    B, W, M = text_BWM.shape
    if W > BEAMS:
        return update_sequences_v1(text_BWM, parent_BW, token_BW, length_B, out)
    if out is not None:
        out[...] = text_BWM
        text_BWM = out
    arrays = text_BWM, parent_BW, token_BW, length_B
    launch(refresh_in_place, (B, -(-M // POSITIONS)), (POSITIONS, warps), *arrays)
    return text_BWM


@cuda.jit
def refresh_in_place(text_BWM, parent_BW, token_BW, length_B):
    """Reads 32 positions of each text that another goes on from into shared memory, waits, and writes them.

    Grid (B, ceil(M / 32)), block (32, warps); 16 KiB of shared memory. Reads and writes 8 bytes for each token that
    moves.
    """
    held = cuda.shared.array((BEAMS, POSITIONS), int64)
    b, lane, first = cuda.blockIdx.x, cuda.threadIdx.x, cuda.threadIdx.y
    m, W, length = cuda.blockIdx.y * POSITIONS + lane, text_BWM.shape[1], length_B[b]
    is_before, is_new = m < min(length, text_BWM.shape[2]), m == length and m < text_BWM.shape[2]
    for w in range(first, W, cuda.blockDim.y):
        if parent_BW[b, w] != w and is_before:
            held[w, lane] = text_BWM[b, parent_BW[b, w], m]
    cuda.syncthreads()  # all that is needed has been read: now it may be overwritten
    for w in range(first, W, cuda.blockDim.y):
        if parent_BW[b, w] != w and is_before:
            text_BWM[b, w, m] = held[w, lane]
        elif is_new:
            text_BWM[b, w, m] = token_BW[b, w]


# What each kernel is compiled and type-checked for, without a GPU.
_TEXTS, _BEAMS, _SENTENCES = int64[:, :, ::1], int64[:, ::1], int64[::1]
SIGNATURES = {
    copy_with_tokens: [(_TEXTS, _BEAMS, _BEAMS, _SENTENCES, _TEXTS)],
    refresh_in_place: [(_TEXTS, _BEAMS, _BEAMS, _SENTENCES)],
}
