"""Following the beams by the table of `attend_indirect`: the kernels of reorder.py, for a table is a memory too.

It has one head, whose positions hold one number of 64 bits, two words, each. Both versions have the same hazard and the
same ways around it: 1. by a second buffer and back, 2. in place.
"""

from __future__ import annotations

from .reorder import follow, follow_v1


def redirect_v1(source_RT, parent_R, length_R, out=None):
    return _as_memory(follow_v1, source_RT, parent_R, length_R, out)


def redirect(source_RT, parent_R, length_R, out=None):
    """Version 2."""
    return _as_memory(follow, source_RT, parent_R, length_R, out)


def _as_memory(function, source_RT, parent_R, length_R, out):
    function(source_RT[:, None, :, None], parent_R, length_R, None if out is None else out[:, None, :, None])
    return source_RT if out is None else out


SIGNATURES = {}  # no kernels of its own
