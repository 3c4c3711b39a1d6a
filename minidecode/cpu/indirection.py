"""Following the beams by the table of `attend_indirect`, compiled for the CPU."""

from __future__ import annotations

from .reorder import reorder_cache


def update_indirection(indirection_RT, parent_R, length_R, out=None):
    """A table is a cache of one head, whose positions hold one number each."""
    followed = indirection_RT if out is None else out
    reorder_cache(indirection_RT[:, None, :, None], parent_R, length_R, None if out is None else out[:, None, :, None])
    return followed
