"""Sequences that finish: inserted into the table of finished ones by score."""

from __future__ import annotations

import numpy as np


def store_finished_naive(finished_BWM, running_BWM, slot_BW, parent_BC, token_BC, at_B, out=None):
    """Place by place, from a copy of all texts as they were."""
    before_BWM = finished_BWM.copy()
    if out is not None:
        out[...] = finished_BWM
        finished_BWM = out
    W = slot_BW.shape[1]
    for b, w in np.ndindex(slot_BW.shape):
        slot, at = int(slot_BW[b, w]), int(at_B[b])
        if slot < W:
            finished_BWM[b, w, : at + 1] = before_BWM[b, slot, : at + 1]
        else:
            finished_BWM[b, w, :at] = running_BWM[b, int(parent_BC[b, slot - W]), :at]
            finished_BWM[b, w, at] = token_BC[b, slot - W]
    return finished_BWM


def store_finished(finished_BWM, running_BWM, slot_BW, parent_BC, token_BC, at_B, out=None):
    """Only what moves, from the last place up: a text never moves to a better place, so each is read before it goes."""
    if out is not None:
        out[...] = finished_BWM
        finished_BWM = out
    W = slot_BW.shape[1]
    for b, w in np.argwhere(slot_BW != np.arange(W))[::-1].tolist():
        slot, at = int(slot_BW[b, w]), int(at_B[b])
        if slot < W:
            finished_BWM[b, w, : at + 1] = finished_BWM[b, slot, : at + 1]
        else:
            finished_BWM[b, w, :at] = running_BWM[b, int(parent_BC[b, slot - W]), :at]
            finished_BWM[b, w, at] = token_BC[b, slot - W]
    return finished_BWM
