"""A user's function timed beside ours, so that it cannot look faster than it is.

Published benchmarks of kernels were won by functions that did not do the work. Here each of these is refused, with what
it did: a result kept from an earlier call, found by the address of the input or by its content; an input that was
changed; work that was still running at the return; a timer that was replaced; a result that was never written, or is an
old one; arithmetic in fewer bits; and a time that this machine cannot reach.

So each repeat has values of its own, in arrays at the same addresses, and each result is compared with the reference's.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import sys
import threading
import time
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ..catalog import Cost, Row, arrays_of
from ..conformance.check import results_with_changed
from ..conformance.rows import row_module
from ..device.user_functions import error_line
from ..errors import RefusedError
from ..plan import import_backend_file
from .machines import Machine

TIMERS = (
    "perf_counter",
    "perf_counter_ns",
    "monotonic",
    "monotonic_ns",
    "process_time",
    "thread_time",
    "time",
    "sleep",
)
CLOCK, CPU_CLOCK, ALL_THREADS = time.perf_counter, time.process_time, threading.enumerate
FLOAT32 = 2e-5  # of a row's largest number: what sums in float32 are off by at most; float16 is off by 25 times as much
SEEN_AT_ONCE = 64  # numbers of a result that are read in the first microseconds after the return
MANY = 500  # times that: 1 % of a row's largest number; what is further off is no matter of bits
WAIT = 0.05  # seconds, in which late work arrives
ROUNDS, LEAST_SAVED = 5, 20e-6  # calls on new values, each with one on the same values behind it; seconds
TINY = 1e-30
# What no core passes: 128 bytes and 64 float32 operations a cycle, at 6 GHz. These do not depend on what else runs now.
CORE_BYTES, CORE_OPERATIONS = 128 * 6e9, 64 * 6e9
BYTES_FOR_A_FLOAT = 4  # that an instruction multiplies in place of one
AGAIN = 0.5  # of the time on new values: a function that takes less for values that it has seen does not compute them


class Watched:
    """Names that a function could replace to be timed or compared otherwise; taken before its file is executed."""

    def __init__(self, row: Row):
        judges = sys.modules[__name__], sys.modules[results_with_changed.__module__], row_module(row.name)
        modules = [time, threading, np, *judges, import_backend_file("reference", row.name)]
        self._names = [(m, name, value) for m in modules for name, value in vars(m).items() if callable(value)]

    def refuse_replaced(self, label: str) -> None:
        """Raises RefusedError if one of them is another now, or if a timer is no function of Python's own."""
        replaced = [(m, name) for m, name, value in self._names if vars(m).get(name) is not value]
        replaced += [(time, n) for n in TIMERS if not isinstance(getattr(time, n), types.BuiltinFunctionType)]
        if replaced:
            module, name = replaced[0]
            raise RefusedError(f"{label} replaced {module.__name__}.{name}, by which it is timed and compared{NOTHING}")


NOTHING = ": nothing is timed"


class Submission:
    """One function of the user, and what has been seen of it."""

    def __init__(self, row: Row, label: str, function: Callable[..., Any], clock: Callable[[], float] = CLOCK):
        self.row, self.label, self.function, self.clock = row, label, function, clock
        self._given: tuple | None = None  # the arrays that it is handed, the same ones each time
        self._results: deque[np.ndarray] = deque(maxlen=6)  # they stay, so that no new one has their addresses
        self._expected: deque[tuple] = deque(maxlen=3)  # of the last calls

    def time_call(self, arguments: tuple, expected_of: Callable[[tuple], tuple]) -> float:
        """Seconds of a call on these values. Raises RefusedError.

        expected_of: what the reference makes of them. It runs last, and is wiped: while a function runs, no frame that
        it could look into holds the answer, nor memory that it could be handed.
        """
        self._given = given = copy_into(self._given, arguments)
        threads, tasks, clock = set(ALL_THREADS()), _number_of_tasks(), self.clock
        started = clock()
        try:
            result = self.function(*given)
        except (Exception, SystemExit) as error:
            raise self._make_refusal(error_line(error)) from error
        seconds = clock() - started
        if self.clock is not clock:
            raise self._make_refusal("replaced the clock by which it is timed")
        results = result if isinstance(result, tuple) else (result,)
        self._refuse_other_types(results)
        first = [_sample_numbers(r) for r in results]
        written = results_with_changed(self.row, result, given)
        at_return = tuple(r.copy() for r in written)
        self._refuse_threads(threads, tasks)
        self._refuse_changed_inputs(arguments, given)
        self._refuse_old_arrays(results, given)
        expected = expected_of(arguments)
        what = self._fault_message(at_return, arguments, expected)
        _set_to_zero(expected)
        if what:
            time.sleep(WAIT)
        if not all(map(_are_equal, first, map(_sample_numbers, results))) or not all(
            map(_are_equal, at_return, written)
        ):
            raise self._make_refusal("changed its result after it had returned: work was still running")
        if what:
            raise self._make_refusal(what)
        return seconds

    def remember_answers(self, expected: tuple) -> None:
        """What was right for values that are not asked for again."""
        self._expected.append(expected)

    def refuse_kept_results(self, inputs: Callable[[int], tuple], first: int) -> None:
        """Raises RefusedError if it is much faster for values that it has seen before, in round after round.

        Both calls follow one on other values, and get a copy of their own: nothing else makes the second one faster. By
        the clock and in CPU time, which stands still while other programs have the cores.
        """
        new, again = [], []
        for n in range(first, first + 2 * ROUNDS, 2):
            before, arguments = inputs(n), inputs(n + 1)
            self._seconds_of_call(before)
            new.append(self._seconds_of_call(arguments))
            again.append(self._seconds_of_call(arguments))
            fastest = list(zip(map(min, zip(*new, strict=True)), map(min, zip(*again, strict=True)), strict=True))
            if not all(seen < AGAIN * fresh and fresh - seen > LEAST_SAVED for fresh, seen in fastest):
                return
        (fresh, seen), _ = fastest
        raise self._make_refusal(
            f"takes {_microseconds_in_words(seen)} for values that it has seen and {_microseconds_in_words(fresh)} for"
            " new ones: it keeps results by their content"
        )

    def _seconds_of_call(self, arguments: tuple) -> tuple[float, float]:
        """The seconds of a call on a copy, by the clock and of CPU time."""
        given = copy.deepcopy(arguments)
        clock = self.clock
        started = clock(), CPU_CLOCK()
        self.function(*given)
        return clock() - started[0], CPU_CLOCK() - started[1]

    def refuse_impossible(self, seconds: float, cost: Cost, machine: Machine) -> None:
        """Raises RefusedError above what the cores of this machine can do at all, or twice what was measured of it."""
        cores = os.cpu_count() or 1
        operations = max(cores * CORE_OPERATIONS, 2 * machine.operations)
        of_bytes = max(BYTES_FOR_A_FLOAT * operations, 2 * (machine.int8_operations or 0))
        bandwidth = max(cores * CORE_BYTES, 2 * machine.bandwidth)
        least = dataclasses.replace(
            machine, bandwidth=bandwidth, operations=operations, int8_operations=of_bytes
        ).seconds(cost)
        if seconds < least:
            raise self._make_refusal(
                f"took {_microseconds_in_words(seconds)}, where no machine with {cores} cores moves these bytes and"
                f" does these operations in less than {_microseconds_in_words(least)}: the time cannot be right"
            )

    def _make_refusal(self, what: str) -> RefusedError:
        return RefusedError(f"{self.label} {what}{NOTHING}")

    def _refuse_other_types(self, results: tuple) -> None:
        for r in results:
            if type(r) is not np.ndarray:
                raise self._make_refusal(
                    f"returned a {type(r).__name__} and no NumPy array: it may compute when it is read"
                )

    def _refuse_threads(self, before: set[threading.Thread], tasks: int) -> None:
        if not self._expected:
            return  # the first call, which does not count, may start a pool
        started = [t.name for t in ALL_THREADS() if t not in before]
        if started or _number_of_tasks() > tasks:
            which = started[0] if started else "of compiled code"
            raise self._make_refusal(f"left a thread running when it returned ({which}): it may still be at work")

    def _refuse_changed_inputs(self, arguments: tuple, given: tuple) -> None:
        arrays = zip(arrays_of(self.row, arguments), arrays_of(self.row, given), strict=True)
        for (name, before), (_, after) in arrays:
            if name not in self.row.changes and not _are_equal(before, after):
                raise self._make_refusal(f"changed its input {name}")

    def _refuse_old_arrays(self, results: tuple, given: tuple) -> None:
        handed = [array for _, array in arrays_of(self.row, given)]
        for r in results:
            if any(np.may_share_memory(r, array) for array in handed):
                continue  # in place, or a view of what it was handed
            if any(np.may_share_memory(r, old) for old in self._results):
                raise self._make_refusal(
                    "returned an array that it had returned before: each call needs arrays of its own"
                )
            self._results.append(r)

    def _fault_message(self, mine: tuple, arguments: tuple, right: tuple) -> str | None:
        """The first difference from the reference in what it returned and changed, in words; None if there is none."""
        if find_fault := getattr(row_module(self.row.name), "find_fault", None):
            wrong = find_fault(*mine, *copy.deepcopy(arguments))
            return f"was wrong in a timed call. {wrong}" if wrong else None
        if len(mine) != len(right):
            return f"returned {len(mine)} results in a timed call, where {len(right)} are due"
        off = [_distance_from_right(m, r, self.row.contract) for m, r in zip(mine, right, strict=True)]
        worst = int(np.argmax(off))
        if off[worst] <= 1:
            return None
        if not np.any(mine[worst]):
            return "returned zeros in a timed call"
        if any(_distance_from_right(mine[worst], old[worst], self.row.contract) <= 1 for old in self._expected):
            return "returned the result of an earlier call, whose input had other values"
        if off[worst] <= MANY:
            times = f"{off[worst]:.0f} times what float32 allows"
            return f"was off by {times} in a timed call: it computes in fewer bits"
        return "was wrong in a timed call, at this size and for these values"


def roofline_alarm(label: str, seconds: float, cost: Cost, machine: Machine) -> str | None:
    """What a reader must know of a time above the measured roofline; None below."""
    share = machine.seconds(cost) / seconds
    if share <= 1:
        return None
    return (
        f"alarm: {label} reaches {share:.0%} of the roofline: its arrays stay in a cache, other work slowed the"
        " measurement of this machine, or part of the work is not done"
    )


def time_verified(
    row: Row, ours: Callable[[tuple], dict[str, tuple[Callable, tuple]]], yours: dict[str, Callable],
    inputs: Callable[[int], tuple], repeats: int, synchronize: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = CLOCK,
) -> tuple[dict[str, list[float]], list[Submission]]:  # fmt: skip
    """Label -> seconds of each repeat, by turns and in changing order; one call before them does not count.

    inputs(n): arguments of the n-th values, on the host, which all of a turn get. ours: label -> (function, arguments
    where it wants them), of those. Raises RefusedError.
    """
    reference = vars(import_backend_file("reference", row.name))[row.op]
    submissions = {label: Submission(row, label, function, clock) for label, function in yours.items()}
    seconds: dict[str, list[float]] = {label: [] for label in (*ours(inputs(0)), *yours)}
    rng = np.random.default_rng(0)

    def expected_results(arguments: tuple) -> tuple:
        given = copy.deepcopy(arguments)
        return results_with_changed(row, reference(*given), given)

    for turn in range(repeats + 1):
        arguments = inputs(turn)
        calls = ours(arguments)
        for label in rng.permutation(list(seconds)).tolist():
            if label in submissions:
                took = submissions[label].time_call(arguments, expected_results)
            else:
                took = _time_our_call(*calls[label], synchronize, clock)
            if turn > 0:
                seconds[label].append(took)
        for submission in submissions.values():
            submission.remember_answers(expected_results(arguments))
    for submission in submissions.values():
        submission.refuse_kept_results(inputs, repeats + 1)
    return seconds, list(submissions.values())


def _time_our_call(function: Callable, arguments: tuple, synchronize: Callable, clock: Callable) -> float:
    """The seconds of a call on a copy. Its results are wiped, those in the copy too: the next function could be handed
    them.
    """
    given = copy.deepcopy(arguments)
    synchronize()
    started = clock()
    result = function(*given)
    synchronize()
    seconds = clock() - started
    _set_to_zero((*given, *(result if isinstance(result, tuple) else (result,))))
    return seconds


def _set_to_zero(values: tuple) -> None:
    """Zeros in all of these that are NumPy's arrays."""
    for value in values:
        if isinstance(value, np.ndarray) and value.flags.writeable:
            value[...] = 0


def copy_into(given: Any, fresh: Any) -> Any:
    """The arrays that were given before, with fresh values, where these have the same shape; else a copy."""
    if isinstance(fresh, np.ndarray):
        fits = isinstance(given, np.ndarray) and (given.shape, given.dtype) == (fresh.shape, fresh.dtype)
        if not fits or not given.flags.writeable:
            return copy.deepcopy(fresh)
        given[...] = fresh
        return given
    if isinstance(fresh, tuple):
        shared: dict[int, Any] = {}  # one array may stand in two places
        before = given if isinstance(given, tuple) else (None,) * len(fresh)
        return tuple(shared.setdefault(id(f), copy_into(g, f)) for g, f in zip(before, fresh, strict=True))
    if dataclasses.is_dataclass(fresh):
        parts = {
            f.name: copy_into(getattr(given, f.name, None), getattr(fresh, f.name)) for f in dataclasses.fields(fresh)
        }
        return dataclasses.replace(fresh, **parts)
    return fresh


def _sample_numbers(array: np.ndarray) -> np.ndarray:
    """A few numbers of it, from the first to the last, copied."""
    places = np.linspace(0, max(array.size - 1, 0), min(SEEN_AT_ONCE, array.size)).astype(np.int64)
    return array.flat[places]


def _are_equal(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def _distance_from_right(mine: np.ndarray, right: np.ndarray, contract: str) -> float:
    """How far it is from right, in units of what is allowed; infinite where it is something else altogether."""
    if (mine.shape, mine.dtype) != (right.shape, right.dtype):
        return np.inf
    if _are_equal(mine, right):
        return 0.0
    if right.dtype.kind != "f":
        return np.inf
    mine, right = (np.atleast_1d(a).astype(np.float64) for a in (mine, right))
    with np.errstate(invalid="ignore"):
        same = (mine == right) | (np.isnan(mine) & np.isnan(right))
        distance = np.where(same, 0, np.abs(mine - right))
    largest = np.where(np.isfinite(right), np.abs(right), 0).max(axis=-1, keepdims=True)
    units = float(np.nan_to_num(distance / (FLOAT32 * largest + TINY), nan=np.inf).max())
    return max(units, 2.0) if contract == "exact" else units


def _number_of_tasks() -> int:
    """Threads of the process, those of compiled code too, where the system says; else Python's."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()


def _microseconds_in_words(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} us"
