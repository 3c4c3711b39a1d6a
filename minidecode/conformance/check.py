"""Runs an implementation on inputs that find mistakes, and says what is wrong, as small as it can."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..catalog import Row, arguments_of, find
from ..launch import traced_launches
from ..user_functions import load_file
from . import oracles


@dataclass
class Failure:
    """One input on which an implementation is wrong."""

    arguments: dict[str, Any]
    what: str  # what is wrong, in words
    mistake: str | None = None  # the known mistake that gives the same wrong answer


@dataclass
class Verdict:
    """What `check` found. str() of it is what a user reads."""

    name: str
    implementation: str
    inputs: int  # how many were tried
    failure: Failure | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.failure is None

    def __str__(self) -> str:
        if self.failure is None:
            return f"{self.name}: {self.implementation} is right on all {self.inputs} inputs tried"
        f = self.failure
        lines = [f"{self.name}: {self.implementation} is wrong. {f.what}"]
        if f.mistake:
            lines.append(f"Your output is what {f.mistake}")
        return "\n".join([*lines, "", "The smallest input found:", runnable(find(self.name), f.arguments)])


def check(name: str, implementation: Callable[..., Any], *, examples: int = 200, seed: int = 0) -> Verdict:
    """Judges a function with the positional signature of the op of that name (see ops.py).

    First the planted cases, then random ones; a failure is made smaller and, where a known mistake gives the same wrong
    answer, named. Raises OptionError on an unknown name; errors of the implementation are failures, not raised.
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

    try:
        with traced_launches():
            judge_random()  # first, since a random failure can be made small
            for arguments in inputs.PLANTED[row.inputs]():
                judge(arguments)
    except _WrongAnswerError:
        arguments, what = last[0]
        failure = Failure(arguments_of(row, arguments), what, _known_mistake(row, implementation, arguments))
        return Verdict(name, label, tried[0], failure)
    return Verdict(name, label, tried[0])


class _WrongAnswerError(Exception):
    """Tells hypothesis that an input fails."""


def wrong(row: Row, implementation: Callable[..., Any], arguments: tuple) -> str | None:
    """What is wrong with the answer to these arguments, in words; None if it is right."""
    expected = getattr(oracles, row.op)(*_copies(arguments))
    given = _copies(arguments)
    names = list(arguments_of(row, arguments))
    try:
        result = implementation(*given)
    except Exception as error:
        return f"It raised {type(error).__name__}: {error}"
    for name, before, after in zip(names, arguments, given, strict=True):
        if name != row.changes and isinstance(before, np.ndarray) and not np.array_equal(before, after):
            return f"It changed its input {name}."
    if row.changes is not None:
        changed = given[names.index(row.changes)]
        if not isinstance(result, np.ndarray) or not np.shares_memory(result, changed):
            return f"It must change {row.changes} in place and return it."
    return _difference(np.asarray(result), expected)


def _difference(result: np.ndarray, expected: np.ndarray) -> str | None:
    """The first place where two arrays are not bit-equal, in words."""
    if result.shape != expected.shape or result.dtype != expected.dtype:
        return f"It returned {result.dtype}{result.shape} where {expected.dtype}{expected.shape} is due."
    different = result != expected
    if not different.any():
        return None
    place = tuple(int(i) for i in np.argwhere(different)[0])
    return f"At {list(place)} it has {result[place]}, and {expected[place]} is right ({different.sum()} such places)."


def _known_mistake(row: Row, implementation: Callable[..., Any], arguments: tuple) -> str | None:
    """The known mutant that gives this wrong answer, and only it, in the words of its docstring."""
    given = _copies(arguments)
    try:
        mine = np.asarray(implementation(*given))
    except Exception:
        return None
    same = []
    for path in mutant_files(row.name):
        module = load_file(path)
        try:
            theirs = np.asarray(getattr(module, row.op)(*_copies(arguments)))
        except Exception:
            continue
        if np.array_equal(mine, theirs):
            same.append(f"'{path.stem.replace('_', ' ')}' gives: {(module.__doc__ or '').strip().splitlines()[0]}")
    return same[0] if same else None


def mutant_files(name: str) -> list[Path]:
    """The known-wrong implementations: tests/mutants/NAME in a checkout, conformance/mutants/NAME when installed."""
    here = Path(__file__).resolve().parent
    for folder in (here / "mutants" / name, here.parents[1] / "tests" / "mutants" / name):
        if folder.is_dir():
            return sorted(p for p in folder.glob("*.py") if not p.name.startswith("_"))
    return []


def runnable(row: Row, arguments: dict[str, Any]) -> str:
    """Python code that calls the implementation, as `f`, on these arguments."""
    lines = ["import numpy as np"]
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            values = np.array2string(value, separator=", ", threshold=10**6, max_line_width=110).replace(
                "inf", "np.inf"
            )
            lines.append(f"{name} = np.array({values}, np.{value.dtype})")
        else:
            lines.append(f"{name} = {value!r}")
    lines.append(f"print(f({', '.join(arguments)}))")
    return "\n".join(lines)


def _copies(arguments: tuple) -> tuple:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)
