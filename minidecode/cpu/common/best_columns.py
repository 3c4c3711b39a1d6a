"""The best scores so far, in order, with their columns: pieces of candidates.py and hars.py."""

from __future__ import annotations

from numba import int32

from .jit import njit

PART = 256  # scores that are looked at together


@njit(cache=True)
def how_many_beat(part_X, worst):
    """How many scores are better, NaN among them. A function of its own, of one loop that adds: it runs on vectors."""
    count = int32(0)
    for k in range(len(part_X)):
        count += int32(not part_X[k] <= worst)
    return count


@njit(cache=True)
def insert(best_C, index_C, score, x):
    """Puts a score in its place, behind those that equal it; the last one falls out."""
    c = len(best_C) - 1
    while c > 0 and best_C[c - 1] < score:
        best_C[c], index_C[c] = best_C[c - 1], index_C[c - 1]
        c -= 1
    best_C[c], index_C[c] = score, x
