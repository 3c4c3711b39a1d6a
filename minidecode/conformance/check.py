"""Runs an implementation on inputs that find mistakes, and says what is wrong, as small as it can."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import dims, ops
from ..catalog import Row, arguments_of, find
from ..kernel_types import check_types
from ..launch import seen_kernels, traced_launches
from ..user_functions import load_file
from . import bounds as bounds_of
from . import oracles

LONGEST_CODE = 3000  # characters of an input that are printed


@dataclass
class Failure:
    """An input on which an implementation is wrong, or a kernel that no GPU could run."""

    arguments: dict[str, Any]  # empty where it is no input's fault
    what: str  # what is wrong, in words
    mistake: str | None = None  # the known mistake that gives the same wrong answer


@dataclass
class Verdict:
    """What `check` found. str() of it is what a user reads."""

    name: str
    implementation: str
    inputs: int  # how many were tried
    failure: Failure | None = None
    warnings: list[str] = field(default_factory=list)  # of its kernels: double precision by accident

    @property
    def ok(self) -> bool:
        return self.failure is None

    def __str__(self) -> str:
        if self.failure is None:
            return "\n".join(
                [f"{self.name}: {self.implementation} is right on all {self.inputs} inputs tried", *self.warnings]
            )
        f = self.failure
        lines = [f"{self.name}: {self.implementation} is wrong. {f.what}", *self.warnings]
        if f.mistake:
            lines.append(f"Your output is what {f.mistake}")
        if not f.arguments:
            return "\n".join(lines)
        code = runnable(f.arguments)
        if len(code) > LONGEST_CODE:
            sizes = ", ".join(f"{name}{list(a.shape)}" for name, a in _named(list(f.arguments), f.arguments.values()))
            code = f"({sizes}: too large to print; Verdict.failure.arguments has it)"
        return "\n".join([*lines, "", "The smallest input found:", code])


def check(name: str, implementation: Callable[..., Any], *, examples: int = 200, seed: int = 0) -> Verdict:
    """Judges a function with the positional signature of the op of that name (see ops.py).

    First random inputs, since a failure among them can be made smaller, then the planted ones. Where a known mistake
    gives the same wrong answer, it is named. Kernels that it launches (by `minidecode.launch.launch`) run in the
    emulator, races looked for, or on the GPU; and Numba types them: what the compiler would refuse is a failure, double
    precision by accident a warning. Raises OptionError on an unknown name; errors of the implementation are failures,
    not raised.
    """
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as with_seed

    from . import inputs

    row = find(name)
    label = f"{implementation.__module__}.{implementation.__qualname__}"
    strategy = getattr(inputs, row.inputs)()
    tried, last = [0], [None]

    def judge(arguments: tuple) -> None:
        tried[0] += 1
        what = wrong(row, implementation, arguments)
        if what:
            last[0] = (arguments, what)
            raise _WrongAnswerError

    @with_seed(seed)
    @settings(
        max_examples=examples, database=None, deadline=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink), report_multiple_bugs=False,
    )  # fmt: skip
    @given(strategy)
    def judge_random(arguments: tuple) -> None:
        judge(arguments)

    failure = None
    with traced_launches():
        try:
            with seen_kernels() as kernels:
                judge_random()
                for arguments in inputs.PLANTED[row.inputs]():
                    judge(arguments)
        except _WrongAnswerError:
            arguments, what = last[0]
            failure = Failure(arguments_of(row, arguments), what, _known_mistake(row, implementation, arguments))
    typed = [(kernel.py_func.__name__, check_types(kernel, types)) for kernel, types in kernels.items()]
    remarks = [(kernel, note) for kernel, notes in typed for note in notes]
    refused = [f"The compiler would refuse {kernel}: {note}." for kernel, note in remarks if note.kind == "error"]
    if failure is None and refused:
        failure = Failure({}, refused[0])
    warnings = [f"{kernel}: {note}" for kernel, note in remarks if note.kind == "warning"]
    return Verdict(name, label, tried[0], failure, warnings)


class _WrongAnswerError(Exception):
    """Tells hypothesis that an input fails."""


def wrong(row: Row, implementation: Callable[..., Any], arguments: tuple) -> str | None:
    """What is wrong with the answer to these arguments, in words; None if it is right."""
    given = copy.deepcopy(arguments)
    names = list(arguments_of(row, arguments))
    try:
        result = implementation(*given)
    except Exception as error:
        return f"It raised {type(error).__name__}: {error}"
    for (name, before), (_, after) in zip(_named(names, arguments), _named(names, given), strict=True):
        if name != row.changes and not np.array_equal(before, after):
            return f"It changed its input {name}."
    if row.changes is not None:
        changed = given[names.index(row.changes)]
        if not isinstance(result, np.ndarray) or not np.shares_memory(result, changed):
            return f"It must change {row.changes} in place and return it."
    return _difference(row, result, arguments)


def _named(names: list[str], arguments: Iterable):
    """The arrays among the arguments, those inside of dataclasses too."""
    return dims.arrays_in(list(zip(names, arguments, strict=True)))


def _difference(row: Row, result: Any, arguments: tuple) -> str | None:
    """The first place where a result is not as the row's contract wants it, in words; None if there is none."""
    names = ops.RETURNS[row.op]
    expected = _several(getattr(oracles, row.op)(*copy.deepcopy(arguments)))
    results = _several(result)
    if len(results) != len(names) or not all(isinstance(r, np.ndarray) for r in results):
        return f"It must return {' and '.join(names)}, arrays, not {result!r:.60}."
    bounds = _several(_bounds(row, arguments)) if row.contract == "tolerance" else (0.0,) * len(names)
    dtype = next(a.dtype for _, a in _named(list(arguments_of(row, arguments)), arguments) if a.dtype.kind == "f")
    for name, mine, right, bound in zip(names, results, expected, bounds, strict=True):
        if mine.shape != right.shape or mine.dtype != dtype:
            return f"{name} is {mine.dtype}{mine.shape} where {dtype}{right.shape} is due."
        if told := _beyond(name, mine, right, bound):
            return told
    return None


def _beyond(name: str, mine: np.ndarray, right: np.ndarray, bound: np.ndarray | float) -> str | None:
    """The first place where `mine` is not within the bound of what is right, in words."""
    with np.errstate(invalid="ignore"):  # inf - inf: equal infinities are right
        fine = (mine == right) | (np.abs(mine - right) <= bound)
    if fine.all():
        return None
    place = tuple(int(i) for i in np.argwhere(~fine)[0])
    allowed = float(np.broadcast_to(bound, right.shape)[place])
    within = f", give or take {allowed:.1e}" if allowed else ""
    return f"{name}{list(place)} is {mine[place]}; right is {right[place]:.9g}{within} ({(~fine).sum()} such places)."


def _bounds(row: Row, arguments: tuple):
    return getattr(bounds_of, row.op)(*copy.deepcopy(arguments))


def _several(result: Any) -> tuple:
    return result if isinstance(result, tuple) else (result,)


def _known_mistake(row: Row, implementation: Callable[..., Any], arguments: tuple) -> str | None:
    """The known mutant that gives this wrong answer, in the words of its docstring; the first, if several do."""
    bounds = _several(_bounds(row, arguments)) if row.contract == "tolerance" else (0.0,) * len(ops.RETURNS[row.op])
    try:
        mine = _several(implementation(*copy.deepcopy(arguments)))
    except Exception:
        return None
    for path in mutant_files(row.name):
        module = load_file(path)
        try:
            theirs = _several(getattr(module, row.op)(*copy.deepcopy(arguments)))
            is_same = not any(_beyond("", *triple) for triple in zip(mine, theirs, bounds, strict=True))
        except Exception:
            continue
        if is_same:
            return f"'{path.stem.replace('_', ' ')}' gives: {(module.__doc__ or '').strip().splitlines()[0]}"
    return None


def mutant_files(name: str) -> list[Path]:
    """The known-wrong implementations: tests/mutants/NAME in a checkout, conformance/mutants/NAME when installed."""
    here = Path(__file__).resolve().parent
    for folder in (here / "mutants" / name, here.parents[1] / "tests" / "mutants" / name):
        if folder.is_dir():
            return sorted(p for p in folder.glob("*.py") if not p.name.startswith("_"))
    return []


def runnable(arguments: dict[str, Any]) -> str:
    """Python code that calls the implementation, as `f`, on these arguments."""
    types = {type(value).__name__ for value in arguments.values() if dataclasses.is_dataclass(value)}
    imports = [f"from minidecode.ops import {', '.join(sorted(types))}"] if types else []
    lines = [f"{name} = {_as_code(value)}" for name, value in arguments.items()]
    return "\n".join(["import numpy as np", *imports, *lines, f"print(f({', '.join(arguments)}))"])


def _as_code(value: Any) -> str:
    if isinstance(value, np.ndarray):
        values = np.array2string(value, separator=", ", threshold=10**6, max_line_width=110).replace("inf", "np.inf")
        return f"np.array({values}, np.{value.dtype})"
    if dataclasses.is_dataclass(value):
        fields = (f"{f.name}={_as_code(getattr(value, f.name))}" for f in dataclasses.fields(value))
        return f"{type(value).__name__}({', '.join(fields)})"
    return repr(value)
