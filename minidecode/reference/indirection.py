"""Following the beams by the table of `attend_indirect`: keys and values stay where they are."""

from __future__ import annotations

from .move import gather_rows
from .reorder import move_rows


def update_indirection_naive(indirection_RT, parent_R, length_R, out=None):
    """All rows are copied, those that stay where they are too, with room that nothing is written in yet."""
    moved_RT = gather_rows(indirection_RT, parent_R)
    if out is not None:
        out[...] = indirection_RT
        indirection_RT = out
    written = slice(int(length_R.max()))
    indirection_RT[:, written] = moved_RT[:, written]
    return indirection_RT


def update_indirection(indirection_RT, parent_R, length_R, out=None, *, workspace=None):
    """Rows that have another parent move, in their written part."""
    if out is not None:
        out[...] = indirection_RT
        indirection_RT = out
    move_rows(indirection_RT[:, : int(length_R.max())], parent_R, workspace)
    return indirection_RT
