"""Tokens looked up in a list: a piece of the ops that end texts."""

from __future__ import annotations

from .jit import njit


@njit(cache=True)
def is_among(token, ids_X):
    among = False
    for other in ids_X:
        among |= other == token
    return among
