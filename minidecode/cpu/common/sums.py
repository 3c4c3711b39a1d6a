"""A row plus its bias: what heads.py, append.py, paged_append.py and rotation.py do with the parts of a product."""

from __future__ import annotations

from .jit import njit


@njit(cache=True, nogil=True)
def add_in_place(a_X, b_X, sum_X):
    """A function of its own, of one loop: it runs on vectors."""
    for i in range(len(sum_X)):
        sum_X[i] = a_X[i] + b_X[i]
