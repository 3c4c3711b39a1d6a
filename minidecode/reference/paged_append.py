"""A decode step's new position in pages: bias and cut into heads, keys and values into the row's newest page."""

from __future__ import annotations

import numpy as np

from .append import add_and_cut, write_positions
from .heads import split_heads_naive


def append_paged_naive(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R, out=None):
    """Row by row: the page of the position is looked up, and its keys and values are copied there."""
    q_RHK, *new = split_heads_naive(qkv_RX, bias_X, heads)
    for pages_XGMX, new_RGX in zip((k_XGMK, v_XGMU), new, strict=True):
        for r, at in enumerate(at_R.tolist()):
            nth, slot = divmod(at, pages_XGMX.shape[2])
            write_positions(pages_XGMX[table_RX[r, nth]][None], new_RGX[r : r + 1], np.array([slot]))
    if out is None:
        return q_RHK
    out[...] = q_RHK
    return out


def append_paged(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R, out=None, *, workspace=None):
    """The biased row is cut by views alone: keys and values of all rows go straight to their pages."""
    q_RHK, k_RGK, v_RGU = add_and_cut(qkv_RX, bias_X, heads, out, workspace)
    nth_R, slot_R = np.divmod(at_R, k_XGMK.shape[2])
    page_R = table_RX[np.arange(len(at_R)), nth_R]
    write_positions(k_XGMK, k_RGK, slot_R, page_R)
    write_positions(v_XGMU, v_RGU, slot_R, page_R)
    return q_RHK
