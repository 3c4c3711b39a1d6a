"""Following the beams by the table of `attend_indirect`: keys and values stay where they are."""

from __future__ import annotations

from .move import take
from .reorder import move_rows


def redirect_naive(source_RT, parent_R, length_R, out=None):
    """All rows are copied, those that stay where they are too, with room that nothing is written in yet."""
    moved_RT = take(source_RT, parent_R)
    if out is not None:
        out[...] = source_RT
        source_RT = out
    written = slice(int(length_R.max()))
    source_RT[:, written] = moved_RT[:, written]
    return source_RT


def redirect(source_RT, parent_R, length_R, out=None, *, workspace=None):
    """Rows that have another parent move, in their written part."""
    if out is not None:
        out[...] = source_RT
        source_RT = out
    move_rows(source_RT[:, : int(length_R.max())], parent_R, workspace)
    return source_RT
