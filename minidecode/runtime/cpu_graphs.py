"""Steps that are captured on the CPU: the forward pass of a step as one compiled call, without Python between its ops.

The rules are those of graphs.py. The first step runs as it is, the second is captured, and from the third on a step is
a launch. A captured step holds only ops of the plan's own that say so (`capturable`). If a step calls anything else, a
function of the user's or an op that is rebound, all steps run as they are, and the receipt says why. A generation
captures for itself, and leaves nothing on the model. A graph keeps caches, all intermediates and the logits, so it is
dropped before caches are copied for fewer rows, and when steps are done. A running batch (serving/batch.py), whose
caches stay where they are, has a captured step for each number of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..device.capture import CAPTURABLE, CAPTURE
from ..device.graphs import GraphCounts
from ..device.user_functions import describe_function
from .arena import Fresh
from .receipt import CountedOps

MOST_ROWS = 16  # of a step. More rows take so long that Python's share is small; and a graph keeps all intermediates


class CapturedOnCpu:
    """The forward pass of a step whose number of rows and whose arrays stay the same."""

    def __init__(self, refused: str = "") -> None:
        self.refused = refused  # why no step of the call is captured
        self.forget()

    def forget(self) -> None:
        """Drops what was captured: the next steps have other rows and arrays, or there are none."""
        self.why_not = self.refused  # why none of these rows is
        self.inputs: tuple[Any, ...] | None = None
        self.graph: Any = None
        self._result: Any = None

    def __call__(self, ops: CountedOps, counts: GraphCounts, run: Callable[..., Any], *arrays: Any) -> Any:
        """run(*arrays), which calls these ops. The result is the caller's, as if they had been called."""
        rows = len(arrays[0])
        if not self.why_not and rows > MOST_ROWS:
            self.why_not = f"a step has {rows} rows, and Python takes little of a step of more than {MOST_ROWS}"
        if self.why_not:
            counts.why_not = self.why_not
            return run(*arrays)
        if self.inputs is None:
            self.inputs = tuple(array.copy() for array in arrays)
            return run(*arrays)
        for mine, new in zip(self.inputs, arrays, strict=True):
            mine[...] = new
        if self.graph is None:
            return self._capture(ops, counts, run)
        try:
            self.graph.launch()
        except IndexError as error:
            raise IndexError(f"{error}: {', '.join(map(str, self.inputs))}") from None
        ops.count_again(self._held)
        counts.launches += 1
        return self._result.copy()  # the next launch overwrites it, and a user function may keep what it gets

    def _capture(self, ops: CountedOps, counts: GraphCounts, run: Callable[..., Any]) -> Any:
        """The step runs as it is, and tells the graph what it does."""
        from ..cpu.common.graph import Graph

        graph, before, places = Graph(), ops.counted(), ops.places
        try:
            CAPTURE.set(graph)
            ops.places = Watched(graph)
            result = run(*self.inputs or ())
        finally:
            CAPTURE.set(None)
            ops.places = places
        if graph.why_not:
            self.why_not = counts.why_not = graph.why_not
            return result
        self.graph, self._result, self._held = graph, result, ops.counts_since(before)
        counts.captured += 1
        return result.copy()


class CapturedByRows:
    """The forward pass of a step of a running batch, captured for each number of rows.

    Requests that join and leave change what arrays hold, not where they lie, so what was captured goes on.
    """

    def __init__(self, refused: str = "", most_rows: int = MOST_ROWS) -> None:
        """refused: why no step is captured. most_rows: of the largest step for which there is memory."""
        self.refused, self.most_rows, self.counts = refused, most_rows, GraphCounts()
        self.steps: dict[int, tuple[CapturedOnCpu, int]] = {}  # by rows: and the positions that it saw when it was new

    def __call__(self, ops: CountedOps, run: Callable[..., Any], token_R: np.ndarray, pos_R: np.ndarray) -> Any:
        """run(token_R, pos_R), which calls these ops."""
        return self.step_for_rows(len(pos_R), int(pos_R.sum() + len(pos_R)))(ops, self.counts, run, token_R, pos_R)

    def step_for_rows(self, rows: int, positions: int) -> CapturedOnCpu:
        """The launcher of a step of this many rows, whose texts have this many positions together.

        Which threads attend is part of what is captured. So where texts have become four times as long, or a quarter,
        the step is captured anew.
        """
        step, before = self.steps.get(rows, (None, 0))
        if step is None or not before <= 4 * positions <= 16 * before:
            no_memory = f"steps of more than {self.most_rows} rows would take more of the memory budget than a quarter"
            refused = no_memory if self.most_rows < rows <= MOST_ROWS else ""
            step, before = CapturedOnCpu(self.refused or refused), positions
            self.steps[rows] = step, before
        return step


class Watched(Fresh):
    """Runs the ops of a step that is captured, and sees whether each is one that tells all of its work."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def run_op(self, name: str, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """The op's result."""
        graph, before = self.graph, len(self.graph.launches)
        if not graph.why_not and id(function) not in CAPTURABLE:
            graph.why_not = f"{name} is {describe_function(function)}"
        if graph.why_not:
            CAPTURE.set(None)  # nothing more is noted: not what a user function calls, or starts in a thread
            return function(*args, **kwargs)
        result = function(*args, **kwargs)
        if graph.why_not:
            graph.why_not = f"{name}: {graph.why_not}"
        elif len(graph.launches) == before:
            graph.why_not = f"{name} runs no compiled code"
        return result
