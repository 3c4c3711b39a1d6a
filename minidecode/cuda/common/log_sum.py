"""The logarithm of a sum of exponentials, number by number: pieces of the kernels over a vocabulary."""

from __future__ import annotations

import math

from numba import cuda, float32

from .rows import INFINITY, NAN


@cuda.jit(device=True)
def with_one_more(largest, total, lost, x):
    """The running maximum and the sum of exp(x - largest), with one number more; minus infinity adds nothing."""
    if x > largest:
        total, lost = added(rescaled(total, largest, x), rescaled(lost, largest, x), float32(1))
        return x, total, lost
    if x != -INFINITY:
        total, lost = added(total, lost, math.exp(x - largest))
    return largest, total, lost


@cuda.jit(device=True)
def added(total, lost, more):
    """total + more, and what rounding added to that beyond the truth (Kahan): of 512 equal numbers no digit is lost."""
    more -= lost
    new = total + more
    return new, (new - total) - more


@cuda.jit(device=True)
def rescaled(total, largest, onto):
    """A sum of exp(x - largest) as one of exp(x - onto); a sum of nothing, whose largest is none, stays 0."""
    return total if total == 0 else total * math.exp(largest - onto)


@cuda.jit(device=True)
def log_of(total, largest):
    """The logarithm of a sum of exp(x - largest); NaN where x was NaN or plus infinity, or always minus infinity."""
    return math.log(total) if total > 0 and largest < INFINITY else NAN


SIGNATURES = {}  # no kernels of its own
