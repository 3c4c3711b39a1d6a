"""Tokens looked up in a list: a piece of the kernels that end texts."""

from __future__ import annotations

from numba import cuda


@cuda.jit(device=True)
def is_among(token, ids_X):
    """Whether a token is one of ids_X, without a branch out of the loop."""
    among = False
    for x in range(len(ids_X)):
        if ids_X[x] == token:
            among = True
    return among
