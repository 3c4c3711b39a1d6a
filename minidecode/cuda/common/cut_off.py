"""Saturates numbers at a dtype's largest: a piece of the kernels that round to float16."""

from __future__ import annotations

from numba import cuda


@cuda.jit(device=True)
def cut_off(number, largest):
    """Cuts off by comparisons, all false of NaN. largest: infinity where nothing is (`largest_stored_number`)."""
    number = largest if number > largest else number
    return -largest if number < -largest else number
