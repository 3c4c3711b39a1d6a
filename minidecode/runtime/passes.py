"""Forward passes over whole texts, captured when texts of the same lengths come again: encoders and prefills.

A prefill of GPT-2 is 160 kernels and 45 products, which Python launches one by one. For a prompt of 32 tokens that
took an H100's host 14 ms. What captured ones should take stands in benchmarks/README.md (not measured). A graph has the
lengths of its texts in it, and serves no others. It works on arrays of its own; what it has computed is copied, for
a generation goes on with it while the next one launches the graph again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from ..device.arrays import is_array
from ..device.graphs import Captured, GraphCounts, mark_end_of_work, wait_for_work
from .buckets import caches_over_same_arrays
from .receipt import CountedOps

MOST, MOST_BYTES = 16, 2 << 30  # that are kept: lengths, and memory of their graphs


class Passes:
    """A model's, by what makes two passes launch the same; the one that was used last is at the end."""

    def __init__(self, device: str, most: int = MOST, most_bytes: int = MOST_BYTES):
        self.device, self.most, self.most_bytes = device, most, most_bytes
        self.kept: OrderedDict[Hashable, Captured] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(
        self, key: Hashable, ops: CountedOps, counts: GraphCounts, run: Callable[..., Any],
        inputs: Iterable[Any], beside: Iterable[Any] = (),
    ) -> Any:  # fmt: skip
        """run(*inputs), its arrays the caller's own: an array, or (array, caches, source).

        inputs: arrays with other numbers in each call. beside: those that `run` reads besides, the same for each call
        with this key. A pass that runs is taken out: no other thread finds it.
        """
        with self._lock:
            captured = self.kept.pop(key, None) or Captured(self.device)
        wait_for_work(captured.end)
        of_this = GraphCounts()
        result = captured(ops, of_this, run, *inputs)
        if of_this.captured:
            captured.beside = tuple(beside)  # the graph reads those of this call
        if of_this.launches:
            result, counts.passes = copy_of_result(result), counts.passes + 1
        counts.why_not = counts.why_not or of_this.why_not
        if not captured.lacked_memory:
            self._keep_pass(key, captured)
        return result

    def _keep_pass(self, key: Hashable, captured: Captured) -> None:
        if bytes_of_pass(captured) > self.most_bytes:
            captured.forget_capture()
        captured.end = mark_end_of_work(self.device)
        with self._lock:
            self.kept[key] = captured
            self.kept.move_to_end(key)
            while len(self.kept) > self.most or sum(map(bytes_of_pass, self.kept.values())) > self.most_bytes:
                self.kept.popitem(last=False)

    def clear(self) -> bool:
        """Gives up what is kept. Whether there was any."""
        with self._lock:
            had_any = any(captured.graph is not None for captured in self.kept.values())
            self.kept.clear()
        return had_any


def bytes_of_pass(captured: Captured) -> int:
    """What a pass keeps on the device; nothing before it was captured."""
    return 0 if captured.graph is None else captured.graph.bytes


def copy_of_result(result: Any) -> Any:
    """A copy of what a graph has computed. Caches share with it what they do not hold between steps, as lengths."""
    if is_array(result):
        return result.copy()
    array, caches, source = result
    holders = [*caches, *([] if source is None else [source])]
    copies = caches_over_same_arrays(holders, [held for holder in holders for held in holder.arrays()])
    return array.copy(), copies[: len(caches)], copies[-1] if source is not None else None
