"""The logarithm of a sum of exponentials, number by number: pieces of the kernels over a vocabulary."""

from __future__ import annotations

import math

from numba import cuda, float32

from .rows import INFINITY, NAN


@cuda.jit(device=True)
def max_and_sum_with_next(largest, running_sum, lost, x):
    """The running maximum and the sum of exp(x - largest), with one number more; minus infinity adds nothing."""
    if x > largest:
        running_sum, lost = add_compensated(
            rescale_sum(running_sum, largest, x), rescale_sum(lost, largest, x), float32(1)
        )
        return x, running_sum, lost
    if x != -INFINITY:
        running_sum, lost = add_compensated(running_sum, lost, math.exp(x - largest))
    return largest, running_sum, lost


@cuda.jit(device=True)
def add_compensated(running_sum, lost, more):
    """The sum with `more`, and what rounding added beyond the truth (Kahan): of 512 equal numbers no digit is lost."""
    more -= lost
    new = running_sum + more
    return new, (new - running_sum) - more


@cuda.jit(device=True)
def rescale_sum(running_sum, largest, onto):
    """A sum of exp(x - largest) as one of exp(x - onto); a sum of nothing, whose largest is none, stays 0."""
    return running_sum if running_sum == 0 else running_sum * math.exp(largest - onto)


@cuda.jit(device=True)
def log_of_sum(running_sum, largest):
    """The logarithm of a sum of exp(x - largest); NaN where x was NaN or plus infinity, or always minus infinity."""
    return math.log(running_sum) if running_sum > 0 and largest < INFINITY else NAN
