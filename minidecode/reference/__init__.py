"""Every op in NumPy: the naive form first, the optimized one below it. Signatures and costs stand in ops.py.



An op that needs room for something in between asks for it by `scratch`: it is the `workspace(shape, dtype)` of a caller
that has some to lend (runtime/arena.py), or else found. How much it asks for may grow with shapes and lengths, and must
not hang on any other value.
"""

import numpy as np


def view_as_rows(array):
    """The numbers of each row side by side, as a view that results are written through.

    Raises ValueError where they do not lie so: what is written into a copy would be lost.
    """
    if not array[:1].flags.c_contiguous:
        raise ValueError(f"out, of shape {array.shape} and strides {array.strides}, must have each row in one piece")
    return array.reshape(len(array), int(np.prod(array.shape[1:])))


def or_empty(array, like):
    """`array`, or for None an empty one of like's kind: compiled code takes no None without being compiled again."""
    return like[:0] if array is None else array


def empty(like, shape, dtype=None):
    """An array of this shape that lies where `like` does; of its dtype if no other is said.

    CuPy's own `empty_like` takes the host several times as long as the constructor.
    """
    kind = type(like)
    if kind.__module__ == "cupy":
        return kind(shape, like.dtype if dtype is None else dtype)
    return np.empty_like(like, dtype, order="C", shape=shape)


def scores_to_change(scores_RV, out):
    """The array to change: the scores themselves, or a copy of them in `out`."""
    if out is None:
        return scores_RV
    out[...] = scores_RV
    return out


def flag_array(like, out):
    """An array of one number beside `like`, if no `out` is given."""
    return np.empty_like(like, np.int64, shape=1) if out is None else out


def scratch(workspace, shape, like, dtype=None):
    """An array of this shape, of like's dtype if no other is said; without a workspace, of like's kind (CuPy's)."""
    if workspace is None:
        return empty(like, shape, dtype)
    return workspace(shape, like.dtype if dtype is None else dtype)
