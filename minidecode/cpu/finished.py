"""Texts that finish, compiled for the CPU."""

from __future__ import annotations

from .common.jit import njit


def store_finished(finished_BWM, running_BWM, slot_BW, parent_BC, token_BC, at_B, out=None):
    """Only what moves, from the last place up."""
    if out is not None:
        out[...] = finished_BWM
        finished_BWM = out
    _store_finished(finished_BWM, running_BWM, slot_BW, parent_BC, token_BC, at_B)
    return finished_BWM


@njit(cache=True)
def _store_finished(finished_BWM, running_BWM, slot_BW, parent_BC, token_BC, at_B):
    B, W = slot_BW.shape
    for b in range(B):
        at = at_B[b]
        for w in range(W - 1, -1, -1):
            c = slot_BW[b, w] - W
            if c >= 0:
                finished_BWM[b, w, :at] = running_BWM[b, parent_BC[b, c], :at]
                finished_BWM[b, w, at] = token_BC[b, c]
            elif c + W != w:
                finished_BWM[b, w, : at + 1] = finished_BWM[b, c + W, : at + 1]
