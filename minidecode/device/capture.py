"""A decode step that is captured on the CPU: what ops and caches tell while it runs. Needs NumPy alone.

All compiled code of a step is started by `parallel_for` (cpu/common/thread_pool.py), which tells the graph that is
being made (cpu/common/graph.py) what runs on which arrays. What NumPy does in a step, no graph can do again: the code
that does it says so by `refuse_capture`, and the step is not captured.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

CAPTURE: ContextVar[Any] = ContextVar("capture", default=None)  # the graph of the step that is captured in this thread
CAPTURABLE: dict[int, Callable[..., Any]] = {}  # by id, for what stands in an op's place may have no hash
Op = TypeVar("Op", bound=Callable[..., Any])


def capturable(op: Op) -> Op:
    """Marks an op that notes all of its work in the graph. A function rebound in its place is not marked."""
    CAPTURABLE[id(op)] = op
    return op


def refuse_capture(what: str) -> None:
    """Keeps the step that is being captured, if there is one, from being captured; `what` is the reason."""
    graph = CAPTURE.get()
    if graph is not None:
        graph.why_not = graph.why_not or what


def contiguous_array(array: np.ndarray, dtype: Any = None) -> np.ndarray:
    """np.ascontiguousarray. A copy is NumPy's work: a graph would read the old one at every step."""
    same = np.ascontiguousarray(array, dtype)
    if same is not array and same.size:
        refuse_capture("NumPy copies an array that does not lie in order")
    return same


def add_one_to_counts(count_R: np.ndarray) -> None:
    """count += 1, in place: what a cache counts in a step."""
    count_R += 1
    graph = CAPTURE.get()
    if graph is not None:
        graph.add_one(count_R)
