"""The texts of a beam search follow their parents, compiled for the CPU, sentence by sentence."""

from __future__ import annotations

from ..reference import sequences as reference
from .common.code_paths import COMPILED, NUMPY, count_call
from .common.follow_parents import follow_parents
from .common.jit import njit


def update_sequences(text_BWM, parent_BW, token_BW, length_B, out=None):
    """A token that moves is read once and written once; all else stays untouched."""
    if out is not None:
        out[...] = text_BWM
        text_BWM = out
    if not text_BWM.flags.c_contiguous:  # which the loops are compiled for
        count_call(NUMPY)
        return reference.update_sequences(text_BWM, parent_BW, token_BW, length_B)
    count_call(COMPILED)
    _update_sequences(text_BWM, parent_BW, token_BW, length_B)
    return text_BWM


@njit(cache=True)
def _update_sequences(text_BWM, parent_BW, token_BW, length_B):
    B, W, M = text_BWM.shape
    memory_BWGMX = text_BWM.reshape(B, W, 1, M, 1)  # one head, whose positions hold one token each
    for b in range(B):
        follow_parents(memory_BWGMX[b], parent_BW[b], length_B[b])
        for w in range(W):
            text_BWM[b, w, length_B[b]] = token_BW[b, w]
