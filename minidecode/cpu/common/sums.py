"""Two rows added: a bias and what becomes of it. A piece of heads.py, append.py and paged_append.py."""

from __future__ import annotations

from .jit import njit


@njit(cache=True, nogil=True)
def add(a_X, b_X, sum_X):
    """A function of its own, of one loop: it runs on vectors."""
    for i in range(len(sum_X)):
        sum_X[i] = a_X[i] + b_X[i]
