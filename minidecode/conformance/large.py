"""Large inputs, the cheapest first, up to a size or within a budget of time; the report lists what was left out."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..catalog import Row, arrays_of
from ..device.seen_kernels import dry_launches, seen_kernels
from ..device.user_functions import error_line
from ..emulator.watchdog import Interrupted, Watchdog
from .kernel_types import narrow_indices
from .rows import row_module

SECONDS = 30.0  # for the large inputs of a row, where kernels are emulated
MOST_EMULATED_ROWS = 65_535  # above, kernels are judged by the limits of a launch and by the types of their indices
ROW_LETTERS = "RB"  # the axes along which a launch has blocks: rows and sentences
THREADS_OF_A_ROW = 64  # what one more row costs, in numbers: an emulated kernel has a block of threads for it


class LeftOut(NamedTuple):
    """A large input that was not tried."""

    name: str  # its largest array, with its shape
    sizes: str  # all arrays
    why: str

    def __str__(self) -> str:
        return f"{self.sizes}: {self.why}"


def judge_large(
    judge: Callable[[tuple], Any], row: Row, cases: list[tuple], seconds: float, judge_limits: Callable | None,
    left_out: list[LeftOut], numbers: int | None = None,
) -> tuple[tuple, Any] | None:  # fmt: skip
    """The first of these inputs, the cheapest first, on which `judge` finds a mistake, with it; None if there is none.

    An input is left out if its estimate is more than what is left of `seconds`: its cost, at the speed of the fastest
    one so far. numbers: instead of that, all are tried that cost at most so much, however long they take: the same on
    each machine. `left_out` gets the others. judge_limits: judges emulated kernels for more rows
    than are emulated; they are stopped at the end of the budget, too. Host code, for which it is None, is not
    interrupted.
    """
    begun, speed = time.monotonic(), 0.0  # seconds per unit of cost
    for arguments in sorted(cases, key=lambda case: cost_to_judge(row, case)):
        skip, started = functools.partial(LeftOut, *shapes_in_words(row, arguments)), time.monotonic()
        left, needed = seconds - (started - begun), speed * cost_to_judge(row, arguments)
        if judge_limits and number_of_rows(row, arguments) > MOST_EMULATED_ROWS:
            if mistake := judge_limits(arguments):
                return arguments, mistake
            left_out.append(skip("kernels are not emulated for so many rows; launch limits and index types fit"))
            continue
        if numbers is not None:
            if cost_to_judge(row, arguments) > numbers:
                left_out.append(skip(f"more than {numbers:,} numbers, counted with {THREADS_OF_A_ROW} for each row"))
            elif mistake := judge(arguments):
                return arguments, mistake
            continue
        if left <= 0 or needed > left:
            left_out.append(skip(f"needs about {needed:.1f} s, and of {seconds:g} s {max(left, 0):.1f} s are left"))
            continue
        mistake, is_too_long = _judge_within(left, judge, arguments) if judge_limits else (judge(arguments), False)
        took = time.monotonic() - started
        if is_too_long:
            left_out.append(skip(f"stopped after {took:.1f} s, the end of the {seconds:g} s for large inputs"))
        elif mistake:
            return arguments, mistake
        else:
            speed = min(speed or math.inf, took / cost_to_judge(row, arguments))
    return None


def _judge_within(seconds: float, judge: Callable[[tuple], Any], arguments: tuple) -> tuple[Any, bool]:
    """(what the judge says, whether that is only that it takes too long in the emulator)."""
    mistake, watchdog = None, Watchdog(seconds, lambda: None)
    with contextlib.suppress(Interrupted):
        mistake = watchdog.run_watched(lambda: judge(arguments))
    is_refused = mistake is not None and "blocks would take about" in mistake.what
    return mistake, watchdog.has_interrupted or is_refused


def why_beyond_limits(implementation: Callable[..., Any], arguments: tuple) -> str | None:
    """A problem of its launches for this many rows, which are not run: grids, blocks, types of indices; else None."""
    raised = None
    with dry_launches(), seen_kernels() as kernels, np.errstate(all="ignore"):
        try:
            implementation(*arguments)
        except (Exception, SystemExit) as error:  # its arrays hold nothing: after the last launch it may well raise
            raised = error
    if raised is not None and "is at most" in str(raised):
        return f"It {error_line(raised)}"
    for kernel, types in kernels:
        for note in narrow_indices(kernel, types):
            return f"{kernel.py_func.__name__}: line {note.line}: {note.message}."
    return f"It {error_line(raised)}" if raised is not None and not kernels else None


def cost_to_judge(row: Row, arguments: tuple) -> int:
    """An estimate to sort by: the numbers in the arrays, and threads for each row."""
    made = getattr(row_module(row.name), "count_generated_numbers", lambda *_: 0)(*arguments)
    return (
        made + sum(np.size(a) for _, a in arrays_of(row, arguments)) + THREADS_OF_A_ROW * number_of_rows(row, arguments)
    )


def number_of_rows(row: Row, arguments: tuple) -> int:
    """How many rows or sentences there are, by the names of the arrays' axes."""
    return max(
        (len(a) for name, a in arrays_of(row, arguments) if name.rpartition("_")[2][:1] in ROW_LETTERS), default=1
    )


def shapes_in_words(row: Row, arguments: tuple) -> tuple[str, str]:
    """The shapes of the largest array, and of all."""
    arrays = [(a.size, f"{name}{list(a.shape)}") for name, a in arrays_of(row, arguments) if a.ndim]
    largest = max(arrays, key=lambda named: named[0])
    return largest[1], ", ".join(shape for _, shape in arrays)
