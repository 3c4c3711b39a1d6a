"""Following the beams by the table of `attend_indirect`: the kernels of reorder.py, applied to the table.

It has one head, whose positions hold one number of 64 bits, two words, each. The hazard is that of reorder.py, and
so are the ways around it:

1. Through a second buffer, and back.
2. In place, and only what moves.

Floor: a launch in a graph, 1.1 us. Predicted 2.1 us: an entry waits for its parent. Not measured.
"""

from __future__ import annotations

from .reorder import reorder_cache_v1, reorder_cache_v2


def update_indirection_v1(indirection_RT, parent_R, length_R, out=None):
    """Moves the rows of the table to those that go on from them, by a second buffer and back.

    As `reorder_cache_v1` of a cache of one head and one number: reads and writes all 8RT bytes twice.
    """
    return _as_memory(reorder_cache_v1, indirection_RT, parent_R, length_R, out)


def update_indirection(indirection_RT, parent_R, length_R, out=None):
    """Moves the rows of the table to those that go on from them, in place.

    Version 2, as `reorder_cache_v2`: reads and writes 8 bytes for each entry that moves.
    """
    return _as_memory(reorder_cache_v2, indirection_RT, parent_R, length_R, out)


def _as_memory(function, indirection_RT, parent_R, length_R, out):
    function(indirection_RT[:, None, :, None], parent_R, length_R, None if out is None else out[:, None, :, None])
    return indirection_RT if out is None else out
