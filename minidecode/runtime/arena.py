"""One buffer for the intermediates of decode steps, of one model or of several that take turns (LightSeq, section 2.3).

A step is followed through three sections: "reorder" (the caches follow the beams), "forward" (a forward pass, up to
the logits) and "search" (what the search makes of them, until the next step). The engine says where each begins; the
proxy in front of the ops hands every call to `run_op`. A prefill lies in no section, and is not planned.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..device.arrays import address_of, put
from ..errors import MemoryBudgetError, OptionError
from ..ops import ALIGNED
from ..reference.arena import rounded_to_alignment
from .planner import Layout

UNPLANNED = ("bias_sequences",)  # ops that come at some steps alone, and make nothing
SHOWN = 30  # intermediates of a plan that are printed


class Fresh:
    """No arena: NumPy allocates every result, and frees it when nothing refers to it any more."""

    bytes, placed_by, why_in_parts = 0, "", ""
    run_op = None  # who counts an op calls the function itself

    def begin_section(self, section: str, reads: np.ndarray | None = None) -> None:
        """Begins a section, to which the next calls belong. reads: what its code reads without any op."""

    def note_host_reads(self, arrays: Sequence[np.ndarray]) -> None:
        """NumPy reads these results of ops here, where no op is called: until then they stay."""


@dataclass(frozen=True)
class Result:
    """The place of a result: a lifetime of the layout, read as an array of `rows` x axes."""

    lifetime: int
    axes: tuple[int, ...]
    dtype: np.dtype


@dataclass(frozen=True)
class Call:
    """The n-th call of a section, as the dry run saw it. Without results, it writes where it always does."""

    op: str
    time: int  # on the layout's timeline
    results: tuple[Result | None, ...]  # None for one that is an argument itself
    rows_of: int | None  # the argument that has as many rows as the results
    workspace: int | None  # its lifetime


@dataclass(frozen=True)
class Extent:
    """How large a request is: its sentences, and the most tokens that one of them has. A plan is made for one."""

    sentences: int
    source_tokens: int  # 0 without an encoder
    prompt_tokens: int
    new_tokens: int
    text_tokens: int  # both together: the longest prompt need not be the one that grows the most

    def covers(self, other: Extent) -> bool:
        """Whether all that the other asks for is within this."""
        mine, theirs = vars(self).values(), vars(other).values()
        return all(a >= b for a, b in zip(mine, theirs, strict=True))

    def __str__(self) -> str:
        source = f"sources of {self.source_tokens}, " if self.source_tokens else ""
        return f"{self.sentences} x ({source}prompts of {self.prompt_tokens} and {self.new_tokens} new tokens)"


@dataclass(frozen=True)
class StepPlan:
    """The offsets in an arena of everything that a decode step makes, for requests up to `extent`."""

    layout: Layout
    calls: dict[str, tuple[tuple[Call, ...], ...]]  # by section, and by the ways in which it may go
    extent: Extent
    made_for: tuple  # whatever else decides which ops a step calls; compared as a whole
    device: str = "cpu"  # where it lies

    @property
    def bytes(self) -> int:
        """What the arena must hold."""
        return self.layout.bytes

    @property
    def number_of_calls(self) -> int:
        """The number of calls in all sections, whichever way they go."""
        return sum(len(calls) for ways in self.calls.values() for calls in ways)

    def serves(self, extent: Extent, made_for: tuple) -> bool:
        """Whether such a request keeps to this plan."""
        return self.made_for == made_for and self.extent.covers(extent)

    def as_dict(self) -> dict[str, Any]:
        """The table and its sums, as JSON can hold them."""
        layout = self.layout
        rows = [
            {"name": a.name, "bytes": a.bytes, "first": a.first, "last": a.last, "offset": offset}
            for a, offset in zip(layout.lifetimes, layout.offsets, strict=True)
        ]
        return {
            "extent": vars(self.extent), "calls": self.number_of_calls, "intermediates": rows,
            "arena_bytes": layout.bytes, "separate_bytes": layout.separate_bytes, "lower_bound": layout.lower_bound,
            "placed_by": layout.placed_by,
        }  # fmt: skip

    def __str__(self) -> str:
        """The largest intermediates, in the order of their calls, and the sums; `as_dict` has all of them."""
        placed = list(zip(self.layout.lifetimes, self.layout.offsets, strict=True))
        largest = sorted(placed, key=lambda each: -each[0].bytes)[:SHOWN]
        width = max((len(a.name) for a, _ in largest), default=12)
        lines = [f"{'intermediate':<{width}} {'bytes':>13} {'first':>6} {'last':>6} {'offset':>13}"]
        for a, offset in filter(largest.__contains__, placed):
            lines.append(f"{a.name:<{width}} {a.bytes:>13,} {a.first:>6} {a.last:>6} {offset:>13,}")
        if len(placed) > SHOWN:
            left_out = sum(a.bytes for a, _ in placed) - sum(a.bytes for a, _ in largest)
            lines.append(f"and {len(placed) - SHOWN} smaller ones, {left_out:,} bytes together")
        return "\n".join([*lines, "", self.describe_savings()])

    def describe_savings(self) -> str:
        """What sharing saves, and what no plan could."""
        layout = self.layout
        times = f" ({layout.separate_bytes / layout.bytes:.1f} times as much)" if layout.bytes else ""
        beyond = f" ({layout.bytes / layout.lower_bound - 1:+.1%})" if layout.bytes else ""
        return "\n".join([
            f"step of {self.extent}",
            f"{len(layout.lifetimes)} intermediates of {self.number_of_calls} calls",
            f"separate buffers {layout.separate_bytes:>15,} bytes{times}",
            f"arena            {layout.bytes:>15,} bytes{beyond}, placed by {layout.placed_by}",
            f"lower bound      {layout.lower_bound:>15,} bytes: the most that is alive at one call",
        ])  # fmt: skip


class Arena:
    """A buffer as large as the largest of these plans, where they lie. Their models may use it one at a time."""

    def __init__(self, *plans: StepPlan):
        for plan in plans:
            if not isinstance(plan, StepPlan):
                raise OptionError(f"an arena is made of plans of plan_step, not {plan!r}")
        self.plans = list(plans)
        self.device, *others = dict.fromkeys(plan.device for plan in plans) or ["cpu"]
        if others:
            say = (
                f"plans for device={self.device} and device={others[0]} share no buffer: make an arena for each device"
            )
            raise OptionError(say)
        size = max((plan.bytes for plan in plans), default=0)
        spacious = np.empty(size + ALIGNED, np.uint8, like=put(np.empty(0), self.device))
        first = -address_of(spacious) % ALIGNED
        self.buffer = spacious[first : first + size]
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Arena({self.bytes:,} bytes, for {'; '.join(str(plan.extent) for plan in self.plans) or 'nothing yet'})"

    @property
    def bytes(self) -> int:
        """What it holds."""
        return self.buffer.nbytes

    def plan_for(self, extent: Extent, made_for: tuple, make: Callable[[], StepPlan]) -> StepPlan:
        """One of its plans, or else what `make` makes, if there is room for that; it is remembered.

        Raises MemoryBudgetError if there is not, with the bytes needed and available.
        """
        for plan in self.plans:
            if plan.serves(extent, made_for):
                return plan
        plan = make()
        if plan.bytes > self.bytes:
            raise MemoryBudgetError(
                f"a step of {extent} needs {plan.bytes:,} bytes for its intermediates, and the arena has "
                f"{self.bytes:,} available: plan an arena for such requests, or ask for fewer or shorter texts"
            )
        self.plans.append(plan)
        return plan

    @contextmanager
    def lend(self, plan: StepPlan) -> Iterator[Places]:
        """The offsets of a plan, for one generation. Raises OptionError while another one has the arena."""
        if not self._lock.acquire(blocking=False):
            raise OptionError("another generation is using this arena: take turns, or give each its own")
        try:
            yield Places(plan, self.buffer)
        finally:
            self._lock.release()


class Places:
    """Hands the n-th call of a section its offsets: results by `out`, what it needs in between by `workspace`."""

    why_in_parts = "memory is planned"  # and so no step is one launch

    def __init__(self, plan: StepPlan, buffer: np.ndarray):
        self.plan, self.buffer, self.bytes = plan, buffer, buffer.nbytes
        self.placed_by = plan.layout.placed_by
        self._section, self._ways, self._made = None, (), 0
        self.now = -1  # the time of the last call
        self._views: dict[tuple[Result, int], np.ndarray] = {}

    def begin_section(self, section: str, reads: np.ndarray | None = None) -> None:
        """Begins a section of the plan. What only some steps do (`keep_only`) is not planned."""
        self._section = section if section in self.plan.calls else None
        self._ways, self._made = self.plan.calls.get(section, ()), 0

    def note_host_reads(self, arrays: Sequence[np.ndarray]) -> None:
        """Does nothing: the plan was made for it."""

    def run_op(self, name: str, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """The op's result, in the arena."""
        if self._section is None or name in UNPLANNED:
            return function(*args, **kwargs)
        number, self._made = self._made, self._made + 1
        # The first call that only one way has says which one it is; what all have in common makes nothing.
        planned = [calls[number].op if number < len(calls) else "nothing more" for calls in self._ways]
        self._ways = tuple(calls for calls, op in zip(self._ways, planned, strict=True) if op == name)
        if not self._ways:
            raise RuntimeError(f"a step calls {name} in its {self._section} where {planned[0]} is planned")
        call = self._ways[0][number]
        if len(self._ways) > 1 and (call.results or call.workspace is not None):
            raise RuntimeError(f"{name} begins several ways of {self._section}, and its place is not the same in all")
        self.now = call.time
        if not any(isinstance(a, type(self.buffer)) for a in args):  # a processor on the host calls it, on copies
            return function(*args, **kwargs)
        if call.results:
            rows = len(args[call.rows_of])
            out = tuple(None if result is None else self._view_of_result(result, rows) for result in call.results)
            kwargs = kwargs | {"out": out if len(out) > 1 else out[0]}
        if call.workspace is not None:
            kwargs = kwargs | {"workspace": self._workspace(call)}
        return function(*args, **kwargs)

    def _view_of_result(self, result: Result, rows: int) -> np.ndarray:
        """The first rows of a result's array; there are fewer when sentences have left."""
        if (result, rows) not in self._views:
            shape = (rows, *result.axes)
            self._views[result, rows] = self._array_at_offset(*self._range_of(result.lifetime), shape, result.dtype)
        return self._views[result, rows]

    def _workspace(self, call: Call) -> Callable[..., np.ndarray]:
        """What np.empty is elsewhere: arrays one behind the other at the call's own offset."""
        free, end = self._range_of(call.workspace)

        def workspace(shape, dtype) -> np.ndarray:
            nonlocal free
            array = self._array_at_offset(free, end, shape, np.dtype(dtype))
            free += rounded_to_alignment(array.nbytes)
            return array

        return workspace

    def _range_of(self, lifetime: int) -> tuple[int, int]:
        """(begin, end) in the buffer."""
        offset = self.plan.layout.offsets[lifetime]
        return offset, offset + self.plan.layout.lifetimes[lifetime].bytes

    def _array_at_offset(self, begin: int, end: int, shape, dtype: np.dtype) -> np.ndarray:
        shape = shape if isinstance(shape, tuple) else (shape,)
        size = math.prod(shape) * dtype.itemsize
        if begin + size > end:
            raise RuntimeError(f"{dtype}{shape} does not fit into the {end - begin:,} bytes that were planned for it")
        return self.buffer[begin : begin + size].view(dtype).reshape(shape)
