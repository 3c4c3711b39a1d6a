"""Following the beams: a row goes on from what another one held."""

from __future__ import annotations

import numpy as np

from .move import take


def follow_naive(k_RGMX, parent_R, length_R, out=None):
    """All rows are copied, those that stay where they are too, with room that nothing is written in yet."""
    moved_RGMX = take(k_RGMX, parent_R)
    if out is not None:
        out[...] = k_RGMX
        k_RGMX = out
    written = slice(int(length_R.max()))
    k_RGMX[:, :, written] = moved_RGMX[:, :, written]
    return k_RGMX


def follow(k_RGMX, parent_R, length_R, out=None):
    """Only rows whose parent is another row move, and of those only what is written."""
    if out is not None:
        out[...] = k_RGMX
        k_RGMX = out
    moved = np.flatnonzero(parent_R != np.arange(len(parent_R)))
    if len(moved):
        written = slice(int(length_R.max()))
        k_RGMX[moved, :, written] = k_RGMX[parent_R[moved], :, written]  # the right side is a copy: no row is lost
    return k_RGMX
