"""Runs an implementation on inputs that find mistakes, and says what is wrong, as small as it can."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import numbers
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import dims, ops
from ..catalog import Row, arguments_of, arrays_of, find
from ..device.arrays import (
    Memories,
    chosen_device,
    device_kind,
    fetch,
    is_array,
    poisoned_memory,
    why_kernels_do_not_compile,
)
from ..device.launch import InEmulator, traced_launches
from ..device.seen_kernels import seen_kernels
from ..device.user_functions import describe_function, describe_other_parameters, error_line, load_python_file
from ..errors import OptionError, shown
from .hurried import hurry_clocks
from .kernel_types import check_types
from .large import SECONDS, LeftOut, judge_large, why_beyond_limits
from .rows import row_module

LONGEST_CODE = 3000  # characters of an input that are printed
NAMED = 3  # of the inputs that were left out: in the first line, with how many more there are
POISON = -7777  # what arrays of whole numbers hold before they are written to; floats hold NaN


@dataclass
class Failure:
    """An input on which an implementation is wrong, or a kernel that no GPU could run."""

    arguments: dict[str, Any]  # empty where it is no input's fault
    what: str  # what is wrong, in words
    mistake: str | None = None  # the known mistake that gives the same answer
    is_right: bool = False  # the answer is right, and breaks what the row promises beyond that


@dataclass
class Verdict:
    """What `check` found. str() of it is what a user reads."""

    name: str
    implementation: str
    inputs: int  # how many were tried
    failure: Failure | None = None
    warnings: list[str] = field(default_factory=list)  # of its kernels: double precision by accident
    left_out: list[LeftOut] = field(default_factory=list)  # large inputs that were not tried
    where: str = ""  # where its kernels ran, and on which arrays
    planted_left_out: int = 0  # planted inputs that were not asked for

    @property
    def ok(self) -> bool:
        return self.failure is None

    def __str__(self) -> str:
        if self.failure is None:
            right = f"{self.name}: {self.implementation} is right on all {self.inputs} inputs tried"
            lines = [right + self._not_tried_in_words(), *filter(None, [self.where]), *self.warnings]
            return "\n".join([*lines, *(f"Left out: {what}" for what in self.left_out)])
        f = self.failure
        verb = "gives a right answer that breaks a promise" if f.is_right else "is wrong"
        lines = [f"{self.name}: {self.implementation} {verb}. {f.what}", *filter(None, [self.where]), *self.warnings]
        if f.mistake:
            lines.append(f"Your output is what {f.mistake}")
        if not f.arguments:
            return "\n".join(lines)
        code = runnable_code(f.arguments)
        if len(code) > LONGEST_CODE:
            sizes = ", ".join(f"{name}{list(a.shape)}" for name, a in dims.arrays_in(list(f.arguments.items())))
            code = f"({sizes}: too large to print; Verdict.failure.arguments has it)"
        return "\n".join([*lines, "", "The smallest input found:", code])

    def _not_tried_in_words(self) -> str:
        """The end of the first line: how many planted inputs were left out, and which large ones."""
        planted = f"; {self.planted_left_out} planted ones were left out" if self.planted_left_out else ""
        if not self.left_out:
            return planted
        names = [left.name for left in self.left_out[:NAMED]]
        more = [f"and {len(self.left_out) - NAMED} more"] if len(self.left_out) > NAMED else []
        return f"{planted}; larger ones were not tried: {', '.join([*names, *more])}"


def check(
    name: str, implementation: Callable[..., Any], *, examples: int = 200, seed: int = 0,
    promised: bool = True, progress: Callable[[int, int], None] = lambda done, total: None,
    large_seconds: float | None = None, shrinks: int | None = None, large_numbers: int | None = None,
    planted: int | None = None, device: str | None = None,
) -> Verdict:  # fmt: skip
    """Judges a function with the positional signature of the op of that name (see ops.py).

    First random inputs, since a failure among them can be made smaller; then the planted ones, some of them once more
    with clocks that hurry (hurried.py); then the large ones, the cheapest first. Host code gets all of these, whatever
    time they take; kernels in the emulator get them for 30 s. large_seconds: a budget for either. large_numbers:
    instead, all of up to this many numbers. planted: this many of the planted inputs, drawn evenly (None: all). The
    first line of the verdict names what was left out. Where a known mistake gives the same wrong answers, it is named.

    Kernels that it launches (by `device.launch.launch` or `md.emulate`) run in the emulator, races looked for, or on
    the GPU. On a GPU minidecode's kernels get arrays that live there, as in generations; so does any function with
    device="cuda" (or "emulator", whose arrays refuse what CuPy's refuse). Numba types kernels: what the compiler would
    refuse is a failure, double precision by accident a warning.

    promised: whether it must also keep what the row promises beyond right answers, as a block that is small; naive
    versions need not. shrinks: how many inputs are tried to make a failure smaller; None: until it gets no smaller.
    progress(done, total) is called for each input; those that make a failure smaller come on top. Raises OptionError
    on an unknown name and on numbers below 1; errors of the implementation are failures, not raised.
    """
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as with_seed
    from hypothesis.errors import Flaky

    row = find(name)
    if not all(isinstance(n, numbers.Integral) and n > 0 for n in (examples, 1 if planted is None else planted)):
        raise OptionError("check takes at least one random input and one planted one: examples and planted are above 0")
    if not callable(implementation):
        raise OptionError(f"check takes a function, not {shown(implementation)}: give one, such as mine.{row.op}")
    label = describe_function(implementation)
    device = device or choose_device(implementation)
    if device != "cpu":
        implementation = OnDevice(implementation, device)
    is_emulated = device == "emulator" or isinstance(implementation, InEmulator) or device_kind() != "gpu"
    asked = row_module(name)
    strategy, all_planted = (
        asked.draw_inputs(),
        [drop_unused_bias(implementation, case) for case in asked.planted_cases()],
    )
    some_planted = all_planted if planted is None else draw_evenly(all_planted, planted)
    large = asked.large_cases()
    total = examples + len(some_planted) + len(large)
    tried, since, last, kept, left_out = [0], [0], [None], _KeepsResults(implementation), []

    def mistake_in_case(arguments: tuple) -> Mistake | None:
        tried[0] += 1
        progress(min(tried[0], total), total)
        return find_mistake(row, kept, arguments, promised)

    def judge_case(arguments: tuple) -> None:
        since[0] += last[0] is not None
        if shrinks is not None and since[0] > shrinks:
            raise _EnoughError
        if mistake := mistake_in_case(arguments):
            last[0] = (arguments, mistake)
            is_enough = mistake.is_of_call or "does not come out of" in mistake.what
            raise _EnoughError if is_enough else _WrongAnswerError

    def mistake_by_limits(arguments: tuple) -> Mistake | None:
        what = why_beyond_limits(implementation, arguments)
        return Mistake(what) if what else None

    @with_seed(seed)
    @settings(
        max_examples=examples, database=None, deadline=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink), report_multiple_bugs=False,
    )  # fmt: skip
    @given(strategy)
    def judge_random(arguments: tuple) -> None:
        judge_case(drop_unused_bias(implementation, arguments))

    failure = None
    with traced_launches():
        try:
            with seen_kernels() as kernels:
                judge_random()
                for arguments in some_planted:
                    judge_case(arguments)
                if mistake := find_mistake_with_out(row, implementation, all_planted[0]):
                    last[0] = (all_planted[0], mistake)
                    raise _WrongAnswerError
                if not kernels and (problem := find_mistake_in_a_hurry(row, implementation, some_planted)):
                    last[0] = problem
                    raise _WrongAnswerError
                limits = mistake_by_limits if kernels and is_emulated else None
                seconds = large_seconds if large_seconds is not None else SECONDS if limits else math.inf
                if problem := judge_large(mistake_in_case, row, large, seconds, limits, left_out, large_numbers):
                    last[0] = problem
                    raise _WrongAnswerError
        except (_WrongAnswerError, _EnoughError, Flaky):
            arguments, mistake = last[0]
            name_of_it = None
            if mistake.is_of_value:
                name_of_it = _known_mistake(row, implementation, [*all_planted[:8], arguments])
            due_to = {} if mistake.is_of_call else arguments_of(row, arguments)
            failure = Failure(due_to, mistake.what, name_of_it, mistake.is_right)
    typed = [(kernel.py_func.__name__, check_types(kernel, types)) for kernel, types in kernels]
    remarks = [(kernel, note) for kernel, notes in typed for note in notes]
    refused = [f"The compiler would refuse {kernel}: {note}." for kernel, note in remarks if note.kind == "error"]
    if failure is None and refused:
        failure = Failure({}, refused[0])
    warnings = [f"{kernel}: {note}" for kernel, note in remarks if note.kind == "warning"]
    where = describe_where_it_ran(device, is_emulated, bool(kernels))
    return Verdict(name, label, tried[0], failure, warnings, left_out, where, len(all_planted) - len(some_planted))


def draw_evenly(cases: list[tuple], number: int) -> list[tuple]:
    """`number` of the cases, evenly spaced, the first and the last among them; all if there are no more."""
    if number >= len(cases):
        return cases
    last = len(cases) - 1
    return [cases[i * last // max(number - 1, 1)] for i in range(number)]


def choose_device(implementation: Callable[..., Any]) -> str:
    """The device for a judged function's arrays: the GPU, if there is one, for minidecode's kernels; else the CPU."""
    is_kernel = getattr(implementation, "__module__", "").startswith("minidecode.cuda.")
    if not is_kernel or device_kind() != "gpu":
        return "cpu"
    if unfit := why_kernels_do_not_compile():
        raise OptionError(f"kernels cannot be checked on this GPU: {unfit}")
    return chosen_device("auto")


def describe_where_it_ran(device: str, is_emulated: bool, has_kernels: bool) -> str:
    """A line of the verdict; nothing of a function without kernels."""
    if device != "cpu":
        place = "the GPU" if device == "cuda" else "the emulated device"
        return f"Its arrays lived on {place}, each memory once for all its views; results began as NaN or ones."
    if not has_kernels:
        return ""
    return f"Its kernels ran {'in the emulator' if is_emulated else 'on the GPU, on copies of arrays of the host'}."


class OnDevice:
    """A function of a device's arrays, for arrays of the host: these go there, and what it changed and made comes back.

    As in a generation, arrays lie to each other there as they do here. What it makes holds poison until it is written.
    """

    def __init__(self, function: Callable[..., Any], device: str):
        self._function, self._device = _KeepsResults(function), device
        self.stands_for = function
        self.__signature__ = inspect.signature(function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        memories = Memories(self._device)
        arguments, values = memories.put_on_device(arguments), memories.put_on_device(tuple(named.values()))
        with poisoned_memory(self._device):
            result = self._function(*arguments, **dict(zip(named, values, strict=True)))
        memories.copy_changes_back()
        return memories.result_on_host(result)


def drop_unused_bias(function: Callable[..., Any], arguments: tuple) -> tuple:
    """The arguments without a position bias, if the function has no parameter for it.

    Such a function serves models that have none.
    """
    if not isinstance(arguments[-1], ops.PositionBias) or _takes_bias(function):
        return arguments
    return arguments[:-1]


def _takes_bias(function: Callable[..., Any]) -> bool:
    try:
        return "bias" in inspect.signature(function).parameters
    except ValueError:  # a function without a signature
        return False


HURRIED = 6  # inputs that are tried by clocks that hurry
KEPT_RESULTS = 12  # arrays: more than a function with a ring of buffers is likely to have


class _WrongAnswerError(Exception):
    """Tells hypothesis that an input fails."""


class _EnoughError(BaseException):
    """Ends the search for a smaller input that fails: enough were tried, or each takes its time again."""


class _KeepsResults:
    """The function, whose last results must not change when it is called again: a buffer that is used twice would."""

    def __init__(self, function: Callable[..., Any]):
        self.stands_for = self._function = function
        self._kept: deque = deque(maxlen=KEPT_RESULTS)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        result = self._function(*arguments, **named)
        for before, now in self._kept:
            if not np.array_equal(before, fetch(now), equal_nan=True):
                raise ValueError("what it returned before has changed: each call needs arrays of its own")
        self._kept.extend((fetch(r).copy(), r) for r in _as_tuple(result) if is_array(r))
        return result


class Mistake(NamedTuple):
    """A mistake in one answer, in words; whether its values are wrong; and whether they only break a promise.

    is_of_call: there is no answer, to any input, for the function cannot be called as the op is.
    """

    what: str
    is_of_value: bool = False
    is_right: bool = False
    is_of_call: bool = False


def find_mistake(
    row: Row, implementation: Callable[..., Any], arguments: tuple, promised: bool = True
) -> Mistake | None:
    """The mistake in the answer to these arguments; None if it is right."""
    given = copy.deepcopy(arguments)
    names = list(arguments_of(row, arguments))
    try:
        result = implementation(*given)
    except (Exception, SystemExit) as error:
        other = describe_other_parameters(getattr(implementation, "stands_for", implementation), row.op, given)
        return Mistake(f"It {other}.", is_of_call=True) if other else Mistake(f"It {error_line(error)}")
    for (name, before), (_, after) in zip(arrays_of(row, arguments), arrays_of(row, given), strict=True):
        if name not in row.changes and not np.array_equal(before, after, equal_nan=True):
            return Mistake(f"It changed its input {name}.")
    for name in _changed_and_returned(row, arguments):
        if not isinstance(result, np.ndarray) or not np.shares_memory(result, given[names.index(name)]):
            return Mistake(f"It must change {name} in place and return it.")
    return _find_difference(row, result, given, *oracle_arguments_and_slack(row, implementation, arguments), promised)


def find_mistake_with_out(row: Row, implementation: Callable[..., Any], arguments: tuple) -> Mistake | None:
    """The mistake, if there is one, where `out=` names the arrays to write; they hold poison before."""
    if not getattr(row_module(row.name), "HANDED_OUT", True):
        return None
    try:
        if "out" not in inspect.signature(implementation).parameters:
            return None
    except ValueError:  # a function without a signature
        return None
    given, out = copy.deepcopy(arguments), _make_poisoned_results(row, arguments)
    try:
        results = _as_tuple(implementation(*given, out=out if len(out) > 1 else out[0]))
    except (Exception, SystemExit) as error:
        return Mistake(f"Given `out`, it {error_line(error)}")
    if not all(isinstance(r, np.ndarray) and np.shares_memory(r, o) for r, o in zip(results, out, strict=False)):
        return Mistake("Given `out`, it must write into it and return it.")
    return _find_difference(
        row, out if len(out) > 1 else out[0], given, *oracle_arguments_and_slack(row, implementation, arguments)
    )


def find_mistake_in_a_hurry(
    row: Row, implementation: Callable[..., Any], cases: list[tuple]
) -> tuple[tuple, Mistake] | None:  # fmt: skip
    """The first of a few inputs whose answer is wrong when its time is cut, with the mistake; None if there is none.

    A function that looks at a clock may leave out work on a slow machine, and be judged on a fast one.
    """
    for arguments in cases[:: max(1, len(cases) // HURRIED)]:
        with hurry_clocks(implementation):
            mistake = find_mistake(row, implementation, arguments, promised=False)
        if mistake:
            return arguments, Mistake(f"Its answer changes when its time is cut. {mistake.what}")
    return None


def oracle_arguments_and_slack(row: Row, implementation: Callable[..., Any], arguments: tuple) -> tuple[tuple, int]:
    """The arguments as the oracle gets them, and by how much its bound is multiplied.

    Of functions that round x to float16 (device/low_precision.py: `rounding`) the oracle gets x rounded. Tensor cores
    cut the last digit of a sum off where others round it, which is twice as far.
    """
    while hasattr(implementation, "stands_for"):
        implementation = implementation.stands_for
    if getattr(implementation, "rounds_x", False) and (
        rounded := row_module(row.name).round_arguments_to_float16(*arguments)
    ):
        return rounded, 2
    return arguments, 1


def _make_poisoned_results(row: Row, arguments: tuple) -> tuple:
    """Arrays as the results are, without them: who writes into these could read the answer in a frame below its own."""
    right = _as_tuple(row_module(row.name).oracle(*copy.deepcopy(arguments)))[: len(ops.RETURNS[row.op])]
    dtype = _float_dtype_of(row, arguments)
    return tuple(np.full(r.shape, *((np.nan, dtype) if r.dtype.kind == "f" else (POISON, r.dtype))) for r in right)


def _float_dtype_of(row: Row, arguments: tuple) -> np.dtype | None:
    """The dtype of the first floating-point argument, which results have too; None where there are only integers.

    Sums of float16 are float32, and so are results that are sums; what only moves stays as it is.
    """
    first = next((a.dtype for _, a in arrays_of(row, arguments) if a.dtype.kind == "f"), None)
    return np.dtype(np.float32) if first == np.float16 and row.contract == "tolerance" else first


def _changed_and_returned(row: Row, arguments: tuple) -> list[str]:
    """The arguments that are changed in place and returned: by the result's name, or `add_to` where it is given."""
    given = arguments_of(row, arguments)
    return [n for n in row.changes if n in (*ops.RETURNS[row.op], "add_to") and given.get(n) is not None]


def changed_but_not_returned(row: Row) -> list[str]:
    """The arguments that are changed in place and not returned: they are judged behind the results."""
    return [name for name in row.changes if name not in (*ops.RETURNS[row.op], "add_to")]


def results_with_changed(row: Row, result: Any, given: tuple) -> tuple:
    """The results, and behind them what has become of those arguments."""
    after = arguments_of(row, given)
    return *_as_tuple(result), *(after[name] for name in changed_but_not_returned(row))


def _find_difference(
    row: Row, result: Any, given: tuple, arguments: tuple, times: int = 1, promised: bool = False
) -> Mistake | None:  # fmt: skip
    """The first place where a result is not as the row's contract wants it; None if there is none.

    given: the arguments as they are after the call. times: what bounds are multiplied by.
    """
    names = ops.RETURNS[row.op]
    expected = _as_tuple(row_module(row.name).oracle(*copy.deepcopy(arguments)))
    results = _as_tuple(result)
    if len(results) != len(names) or not all(isinstance(r, np.ndarray) for r in results):
        return Mistake(f"It must return {' and '.join(names)}, arrays, not {result!r:.60}.")
    dtype = _float_dtype_of(row, arguments)
    for name, mine, right in zip(names, results, expected, strict=False):
        due = dtype if right.dtype.kind == "f" else right.dtype
        if mine.shape != right.shape or mine.dtype != due:
            return Mistake(f"{name} is {mine.dtype}{mine.shape} where {due}{right.shape} is due.")
    if replace_undefined := getattr(row_module(row.name), "replace_undefined_results", None):
        results = (replace_undefined(*results, *expected, *copy.deepcopy(arguments)),)
    if find_fault := getattr(row_module(row.name), "find_fault", None):
        what = find_fault(*results, *copy.deepcopy(arguments))
        find_broken_promise = getattr(row_module(row.name), "find_broken_promise", None)
        broken = None
        if promised and find_broken_promise and not what:
            broken = find_broken_promise(*results, *copy.deepcopy(arguments))
        if broken:
            return Mistake(broken, is_of_value=True, is_right=True)
    else:
        names, results = (*names, *changed_but_not_returned(row)), results_with_changed(row, results, given)
        bounds = (times * bound for bound in _bounds_of_results(row, arguments))
        compared = zip(names, results, expected, bounds, strict=True)
        what = next(filter(None, (_first_beyond_bound(*each) for each in compared)), None)
    return Mistake(what, is_of_value=True) if what else None


def _first_beyond_bound(name: str, mine: np.ndarray, right: np.ndarray, bound: np.ndarray | float) -> str | None:
    """The first place where `mine` is not within the bound of what is right, in words."""
    if right.dtype == bool:  # NumPy subtracts none
        mine, right = mine.astype(np.int8), right.astype(np.int8)
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf: equal infinities are right; halves of two signs
        fine = (mine == right) | (np.abs(mine - right) <= bound) | (np.isnan(mine) & np.isnan(right))
    if fine.all():
        return None
    place = tuple(int(i) for i in np.argwhere(~fine)[0])
    allowed = float(np.broadcast_to(bound, right.shape)[place])
    within = f", give or take {allowed:.1e}" if allowed else ""
    return f"{name}{list(place)} is {mine[place]}; right is {right[place]:.9g}{within} ({(~fine).sum()} such places)."


def _bounds_of_results(row: Row, arguments: tuple) -> tuple:
    """How far each result may lie from the oracle's."""
    if row.contract == "exact":
        return (0.0,) * (len(ops.RETURNS[row.op]) + len(changed_but_not_returned(row)))
    return _as_tuple(row_module(row.name).error_bound(*copy.deepcopy(arguments)))


def _as_tuple(result: Any) -> tuple:
    return result if isinstance(result, tuple) else (result,)


def _known_mistake(row: Row, implementation: Callable[..., Any], cases: list[tuple]) -> str | None:
    """The known mutant that gives the same answers to all these inputs, in the words of its docstring."""
    answers = [_try_on_copies(row, implementation, arguments) for arguments in cases]
    for path in mutant_files(row.name):
        module = load_python_file(path)
        mutant = getattr(module, row.op)
        if all(_is_same_answer(row, a, _try_on_copies(row, mutant, c), c) for a, c in zip(answers, cases, strict=True)):
            return f"'{path.stem.replace('_', ' ')}' gives: {(module.__doc__ or '').strip().splitlines()[0]}"
    return None


def _try_on_copies(row: Row, function: Callable[..., Any], arguments: tuple) -> tuple | None:
    """What it returns and changes, as a tuple; None if it raises, or returns something else than arrays."""
    given = copy.deepcopy(arguments)
    try:
        answer = results_with_changed(row, function(*given), given)
    except (Exception, SystemExit):
        return None
    return answer if all(isinstance(part, np.ndarray) for part in answer) else None


def _is_same_answer(row: Row, mine: tuple | None, theirs: tuple | None, arguments: tuple) -> bool:
    """Whether two answers are one within the contract."""
    if mine is None or theirs is None:
        return mine is theirs
    if [part.shape for part in mine] != [part.shape for part in theirs]:
        return False
    compared = zip(mine, theirs, _bounds_of_results(row, arguments), strict=True)
    return not any(_first_beyond_bound("", *each) for each in compared)


def mutant_files(name: str) -> list[Path]:
    """The known-wrong implementations: tests/mutants/NAME in a checkout, conformance/mutants/NAME when installed."""
    here = Path(__file__).resolve().parent
    for folder in (here / "mutants" / name, here.parents[1] / "tests" / "mutants" / name):
        if folder.is_dir():
            return sorted(p for p in folder.glob("*.py") if not p.name.startswith("_"))
    return []


def runnable_code(arguments: dict[str, Any]) -> str:
    """Python code that calls the implementation, as `f`, on these arguments."""
    types = {type(value).__name__ for value in arguments.values() if dataclasses.is_dataclass(value)}
    imports = [f"from minidecode.ops import {', '.join(sorted(types))}"] if types else []
    lines = [f"{name} = {_value_as_code(value)}" for name, value in arguments.items()]
    return "\n".join(["import numpy as np", *imports, *lines, f"print(f({', '.join(arguments)}))"])


def _value_as_code(value: Any) -> str:
    if isinstance(value, np.ndarray):
        values = np.array2string(value, separator=", ", threshold=10**6, max_line_width=110)
        values = values.replace("inf", "np.inf").replace("nan", "np.nan")
        return f"np.array({values}, np.{value.dtype})"
    if dataclasses.is_dataclass(value):
        fields = (f"{f.name}={_value_as_code(getattr(value, f.name))}" for f in dataclasses.fields(value))
        return f"{type(value).__name__}({', '.join(fields)})"
    return repr(value)
