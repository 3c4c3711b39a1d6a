"""Following the beams by the table of `attend_indirect`, compiled for the CPU."""

from __future__ import annotations

from .reorder import follow


def redirect(source_RT, parent_R, length_R, out=None):
    """A table is a memory of one head, whose positions hold one number each."""
    followed = source_RT if out is None else out
    follow(source_RT[:, None, :, None], parent_R, length_R, None if out is None else out[:, None, :, None])
    return followed
