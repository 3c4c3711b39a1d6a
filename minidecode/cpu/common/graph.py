"""A decode step as a list of launches, which later steps run in one compiled call: a CUDA graph for the CPU.

Python takes some 6 us for each op of a step, and a step of GPT-2 calls 110. All compiled code of a step is started by
`parallel_for`, which writes down a function, how many tasks it has, and the addresses and numbers that it works on.
While a step is captured, the graph keeps a copy of all that is written down. Later steps run the same functions on the
same arrays, so their results are the same, bit for bit. What is new in a step lies in arrays that stay where they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .tasks import in_tasks
from .thread_pool import ARGS, CALLER_ALONE, DONE, FUNCTION, LENGTH, ONLY_NOTED, SIZE, launch_all


class Graph:
    """The launches of a step, in their order. It keeps the arrays that they work on."""

    def __init__(self) -> None:
        self.why_not = ""  # why it cannot be launched: something of the step is missing
        self.launches: list[np.ndarray] = []
        self._arrays: list[tuple] = []
        self._launches_X = np.empty(0, np.int64)  # all of them, end to end

    def note(self, function: Any, tasks: int, arguments: tuple, workers: int) -> None:
        """Keeps what `function` writes on a table, where nothing runs; nothing of a step that cannot be launched."""
        if self.why_not:
            return
        table = np.zeros(SIZE, np.int64)
        table[ONLY_NOTED] = 1
        function(tasks, table, *arguments)
        is_shared = workers != CALLER_ALONE and tasks > 1
        self.launches.append(np.array([is_shared, *table[FUNCTION : ARGS + table[LENGTH]]]))
        self._arrays.append(arguments)

    def add_one(self, count_R: np.ndarray) -> None:
        """Here the step adds one to these."""
        self.note(_count, 1, (count_R,), CALLER_ALONE)

    def launch(self) -> None:
        """Runs the step again. Raises what launch_all does."""
        if not len(self._launches_X):
            self._launches_X = np.concatenate(self.launches)
        launch_all(self._launches_X, (self,))


@in_tasks()
def _count(task, count_R):
    for r in range(len(count_R)):
        count_R[r] += 1
    return DONE
