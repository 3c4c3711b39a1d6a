"""Probabilities as whole numbers, whose sums do not depend on their order: pieces of top_p.py and typical.py."""

from __future__ import annotations

import math

from numba import cuda, float64, int64

from .reduction import WARP, warp_sum

ONE = 2.0**44  # units of the likeliest token's weight, as in reference/top_p.py


@cuda.jit(device=True)
def weight_in_units(score, largest):
    """exp(score - largest) in whole units, what is left over dropped; 0 for NaN."""
    weight = math.exp(float64(score) - float64(largest)) * ONE
    return int64(weight) if weight <= ONE else int64(0)  # NaN is no weight


@cuda.jit(device=True)
def add_warp_sum(sums, n, mine):
    """Adds what the threads of a warp bring."""
    mine = warp_sum(mine)
    if cuda.threadIdx.x % WARP == 0:
        cuda.atomic.add(sums, n, mine)
