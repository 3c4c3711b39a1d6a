"""The implementations of one optimization, checked and then timed against each other."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..catalog import Row, find
from ..conformance import check
from ..device import device_kind
from ..errors import NumericalError, OptionError
from ..ops import Norm
from .machines import MACHINES, Machine, this_machine


@dataclass
class Timing:
    """Seconds of one implementation: the median, and the fastest and slowest of the runs."""

    implementation: str
    median: float
    fastest: float
    slowest: float


@dataclass
class Comparison:
    """What `compare` found; str() of it is the table. Ratios are to the first, the naive one."""

    name: str
    shape: str
    timings: list[Timing]
    least: dict[str, float]  # machine -> seconds that the cost model allows at the least
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict:
        return {
            "name": self.name, "shape": self.shape, "timings": [vars(t) for t in self.timings],
            "least_seconds": self.least, "notes": self.notes,
        }  # fmt: skip

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.shape}",
            f"{'implementation':<28} {'median':>11} {'fastest to slowest':>25} {'speed':>9}",
        ]
        for t in self.timings:
            ratio = self.timings[0].median / t.median
            spread = f"{_milliseconds(t.fastest)} to {_milliseconds(t.slowest)}"
            lines.append(f"{t.implementation:<28} {_milliseconds(t.median):>11} {spread:>25} {ratio:>8.1f}x")
        for machine, seconds in self.least.items():
            lines.append(f"{'least by bytes and operations':<28} {_milliseconds(seconds):>11}  on {machine}")
        return "\n".join([*lines, *self.notes])


def compare(name: str, *, repeats: int = 9, machine: str = "this") -> Comparison:
    """Checks every implementation of an optimization, then times them by turns, on inputs of the paper's size.

    machine: what the cost model predicts for: "this" (measured now), v100, t4 or h200. Raises NumericalError if an
    implementation is wrong: it is not timed. Without a GPU the kernels are checked in the emulator and not timed, for
    an emulator's time says nothing about a GPU's.
    """
    if machine != "this" and machine not in MACHINES:
        raise OptionError(f"there is no machine {machine!r}: say this, {', '.join(MACHINES)}")
    row = find(name)
    functions = implementations(row)
    for label, function in functions.items():
        verdict = check(name, function, examples=25 if label.startswith("cuda") else 100)
        if not verdict.ok:
            raise NumericalError(f"{label} is wrong, so nothing is timed.\n{verdict}")
    notes = []
    if device_kind() != "gpu":
        kernels = [label for label in functions if label.startswith("cuda")]
        functions = {label: f for label, f in functions.items() if label not in kernels}
        notes.append(f"no GPU: {', '.join(kernels)} are right in the emulator, and not timed")
    arguments, shape = PAPER_INPUTS[name]()
    timings = time_by_turns(functions, arguments, repeats)
    m: Machine = this_machine() if machine == "this" else MACHINES[machine]
    least = {f"{m.name} ({m.source})": m.seconds(row.cost(*arguments))}
    return Comparison(name, shape, timings, least, notes)


def implementations(row: Row) -> dict[str, Callable]:
    """Label -> function: naive, reference, cpu, and every version of the kernel."""
    found = {}
    for backend in ("reference", "cpu", "cuda"):
        try:
            module = importlib.import_module(f"minidecode.{backend}.{row.name}")
        except ModuleNotFoundError:
            continue
        for function in sorted((f for f in vars(module) if f.startswith(row.op)), key=lambda f: (f == row.op, f)):
            label = function.removeprefix(row.op).strip("_")
            found[f"{backend} {label}".strip()] = getattr(module, function)
    return found


def time_by_turns(functions: dict[str, Callable], arguments: tuple, repeats: int) -> list[Timing]:
    """Each function once to warm up, then all of them by turns, so that a slow moment of the machine hits them all."""
    seconds: dict[str, list[float]] = {label: [] for label in functions}
    for turn in range(repeats + 1):
        for label, function in functions.items():
            given = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)
            started = time.perf_counter()
            function(*given)
            if turn > 0:
                seconds[label].append(time.perf_counter() - started)
    return [Timing(label, statistics.median(s), min(s), max(s)) for label, s in seconds.items()]


def _ngram_inputs() -> tuple[tuple, str]:
    """32 sentences of 4 beams, 140 tokens each (CNN/DailyMail's longest), GPT-2's vocabulary, n = 3."""
    rng = np.random.default_rng(0)
    rows, length, vocabulary = 128, 140, 50257
    tokens_RM = rng.integers(0, 2000, (rows, length))
    scores_RV = np.zeros((rows, vocabulary), np.float32)
    shape = f"{rows} rows of {length} tokens, n = 3, V = {vocabulary:,}"
    return (scores_RV, tokens_RM, np.full(rows, length), 3), shape


def _norm_inputs() -> tuple[tuple, str]:
    """A decode step of GPT-2: 32 sentences of 4 beams."""
    rng = np.random.default_rng(0)
    rows, width = 128, 768
    x_RD, y_RD, (bias_D, gain_D, shift_D) = (
        rng.standard_normal((n, width)).astype(np.float32) for n in (rows, rows, 3)
    )
    return (x_RD, y_RD, bias_D, Norm(gain_D, shift_D, 1e-5)), f"{rows} rows of {width} numbers"


PAPER_INPUTS = {"ngram": _ngram_inputs, "norm": _norm_inputs}


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f} ms"
