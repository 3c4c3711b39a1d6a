"""Rows that go on from other rows, in place: each number that moves is read once and written once.

That takes an order, for a row must be read before it is overwritten. A row from which no other has still to read may
be written at any time, and that may set its parent free. What is left when there are no such rows are rings, in which
each waits for the next: each is opened by putting one row aside.
"""

from __future__ import annotations

import numpy as np

from .jit import njit


@njit(cache=True)
def follow_parents(k_RGMX, parent_R, length):
    R, G, _, X = k_RGMX.shape
    waits_R = parent_R != np.arange(R)  # rows that have still to be written
    readers_R = np.zeros(R, np.int64)  # how many rows have still to read this one
    for r in range(R):
        if waits_R[r]:
            readers_R[parent_R[r]] += 1
    for first in range(R):
        r = first
        while waits_R[r] and readers_R[r] == 0:
            copy_positions(k_RGMX[parent_R[r]], k_RGMX[r], length)
            waits_R[r] = False
            r = parent_R[r]
            readers_R[r] -= 1

    aside_GMX = np.empty((G, length, X), k_RGMX.dtype)
    for first in range(R):
        if waits_R[first]:
            copy_positions(k_RGMX[first], aside_GMX, length)
            r = first
            while parent_R[r] != first:
                copy_positions(k_RGMX[parent_R[r]], k_RGMX[r], length)
                waits_R[r] = False
                r = parent_R[r]
            copy_positions(aside_GMX, k_RGMX[r], length)
            waits_R[r] = False


@njit(cache=True)
def copy_positions(from_GMX, to_GMX, length):
    """The first `length` positions of each head."""
    for g in range(len(from_GMX)):
        source_MX, target_MX = from_GMX[g], to_GMX[g]
        for m in range(length):
            for x in range(source_MX.shape[1]):
                target_MX[m, x] = source_MX[m, x]
