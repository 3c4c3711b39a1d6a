"""Bytes that a call takes at its peak, by tracemalloc, without those that Python takes once in a process.

Python's table of interned strings doubles a few times in a process, within any call: the new table takes megabytes.
Modules and caches come once too. A call above its limit runs a second time, where none of this comes again.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def peak_of(call: Callable[[], Result], limit: float) -> tuple[Result, int]:
    """(what the call gives, the most bytes that it held at one moment); of two runs if the first reaches the limit."""
    return lesser(lambda: traced(call), limit)


def lesser(measure: Callable[[], tuple[Result, int]], limit: float) -> tuple[Result, int]:
    """What `measure` gives, (a result, bytes); if these reach the limit, the lesser of that and another measurement."""
    first = measure()
    if first[1] < limit:
        return first
    gc.collect()  # not before each call: in a process with many objects a look at all of them takes half a second
    return min(first, measure(), key=lambda run: run[1])


def traced(call: Callable[[], Result]) -> tuple[Result, int]:
    """(what the call gives, the most bytes that it held at one moment) of one run."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = call()
        return result, tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
