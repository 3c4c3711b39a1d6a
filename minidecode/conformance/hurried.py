"""Clocks that hurry: a function that leaves out work when its time is up leaves it out at once, and is found."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

SECONDS = 3600  # between two looks at a clock
CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_HURRIED = {f"{name}{unit}": scale for name in CLOCKS for unit, scale in (("", 1), ("_ns", 10**9))}


@contextlib.contextmanager
def hurry_clocks(function: Callable[..., Any]) -> Iterator[None]:
    """Each look at a clock of the module `time` is an hour after the one before, in any thread.

    So are those that the function's own file has imported by name.
    """
    originals = {name: getattr(time, name) for name in _HURRIED if hasattr(time, name)}
    hurried = {name: _make_hurried_clock(original(), SECONDS * _HURRIED[name]) for name, original in originals.items()}
    while hasattr(function, "stands_for"):
        function = function.stands_for
    namespace = getattr(function, "__globals__", {})
    imported = {key: name for key, value in namespace.items() for name, clock in originals.items() if value is clock}
    try:
        for name, clock in hurried.items():
            setattr(time, name, clock)
        namespace.update({key: hurried[name] for key, name in imported.items()})
        yield
    finally:
        for name, clock in originals.items():
            setattr(time, name, clock)
        namespace.update({key: originals[name] for key, name in imported.items()})


def _make_hurried_clock(begin: float, step: float) -> Callable[[], float]:
    looks = itertools.count(1)
    return lambda: begin + step * next(looks)
