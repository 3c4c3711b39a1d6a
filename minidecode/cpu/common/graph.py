"""A decode step as a list of launches, which later steps run in one compiled call: a CUDA graph for the CPU.

Python takes some 6 us for each op of a step, and a step of GPT-2 calls 110. All compiled code of a step is started by
`parallel_for`, which writes down a function, how many tasks it has, and the addresses and numbers that it works on.
While a step is captured, the graph keeps a copy of all that is written down. Later steps run the same functions on the
same arrays, so their results are the same, bit for bit. What is new in a step lies in arrays that stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import thread_pool
from .atomics import array_at
from .jit import njit
from .thread_pool import (
    ARGS,
    CALLER_ALONE,
    DONE,
    FUNCTION,
    MOST_ARGS,
    ONLY_NOTED,
    REFUSED,
    SIZE,
    TASKS,
    launch_all,
    schedule,
)


class Graph:
    """The launches of a step, in their order. It keeps the arrays that they work on."""

    def __init__(self) -> None:
        self.why_not = ""  # why it cannot be launched: something of the step is missing
        self.launches: list[np.ndarray] = []
        self._arrays: list[tuple] = []
        self._launches_NX = np.empty((0, 0), np.int64)

    def note(self, describe: Callable[..., int], arrays: tuple, address: int, workers: int) -> None:
        """Keeps what `describe` writes on a table, where nothing runs; nothing of a step that cannot be launched."""
        if self.why_not:
            return
        table = np.zeros(SIZE, np.int64)
        table[ONLY_NOTED] = 1
        if describe(*arrays, address, table) == REFUSED:
            return
        is_shared = workers != CALLER_ALONE and table[TASKS] > 1
        self.launches.append(np.array([is_shared, *table[FUNCTION : ARGS + MOST_ARGS]]))
        self._arrays.append(arrays)

    def add_one(self, count_R: np.ndarray) -> None:
        """Here the step adds one to these."""
        self.note(_counting, (count_R,), thread_pool.address_of(_task_of_counting), CALLER_ALONE)

    def launch(self) -> None:
        """Runs the step again. Raises what launch_all does."""
        if len(self._launches_NX) != len(self.launches):
            self._launches_NX = np.array(self.launches)
        launch_all(self._launches_NX, (self,))


@njit(cache=True, nogil=True)
def _counting(count_R, function, table):
    """Queues the tasks that count."""
    return schedule(1, function, (np.int64(count_R.ctypes.data), len(count_R)), table)


@njit(cache=True, nogil=True)
def _task_of_counting(args, task):
    count, rows = array_at(args, 0, (2,))
    count_R = array_at(count, 0, (rows,))
    for r in range(rows):
        count_R[r] += 1
    return DONE
