"""A step's end for the texts of a beam search: each goes on from its parent, and gets its new token."""

from __future__ import annotations

import numpy as np

from . import scratch
from .move import gather_rows


def update_sequences_naive(text_BWM, parent_BW, token_BW, length_B, out=None):
    """Text by text, from a copy of all of them as they were."""
    before_BWM = text_BWM.copy()
    if out is not None:
        out[...] = text_BWM
        text_BWM = out
    for b, w in np.ndindex(parent_BW.shape):
        length = int(length_B[b])
        text_BWM[b, w, :length] = before_BWM[b, int(parent_BW[b, w]), :length]
        text_BWM[b, w, length] = token_BW[b, w]
    return text_BWM


def update_sequences(text_BWM, parent_BW, token_BW, length_B, out=None, *, workspace=None):
    """One gather for all texts, into spare room; what is written of a sentence's goes back from there at once."""
    B, W, M = text_BWM.shape
    moved_BWM = scratch(workspace, text_BWM.shape, text_BWM)
    parent_R = (parent_BW + W * np.arange(B)[:, None]).reshape(-1)
    gather_rows(text_BWM.reshape(B * W, M), parent_R, out=moved_BWM.reshape(B * W, M))
    if out is not None:
        out[...] = text_BWM
        text_BWM = out
    for b, length in enumerate(length_B.tolist()):
        text_BWM[b, :, :length] = moved_BWM[b, :, :length]
        text_BWM[b, :, length] = token_BW[b]
    return text_BWM
