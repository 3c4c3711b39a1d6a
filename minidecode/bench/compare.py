"""The implementations of one optimization, checked and then timed against each other."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..catalog import Row, arguments_of, find
from ..conformance import check
from ..conformance.rows import asked_of
from ..device import device_kind
from ..errors import NumericalError, OptionError
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

    On a GPU (with CuPy) the arrays live on the device, as in FastSeq's Table 3: kernels run there; the NumPy code runs
    there as well, through CuPy, with the transfers of what it reads in Python; the compiled CPU code is timed on host
    arrays, apart. Without a GPU the kernels are checked in the emulator and not timed, for an emulator's time says
    nothing about a GPU's.

    machine: what the cost model predicts for: "this" (measured now), v100, t4 or h200. Raises NumericalError if an
    implementation is wrong: nothing is timed then.
    """
    if machine != "this" and machine not in MACHINES:
        raise OptionError(f"there is no machine {machine!r}: say this, {', '.join(MACHINES)}")
    row = find(name)
    functions = implementations(row)
    for label, function in functions.items():
        verdict = check(name, function, examples=25 if label.startswith("cuda") else 100)
        if not verdict.ok:
            raise NumericalError(f"{label} is wrong, so nothing is timed.\n{verdict}")
    arguments, shape = asked_of(name).paper_inputs()
    kernels = [label for label in functions if label.startswith("cuda")]
    if device_kind() == "gpu":
        try:
            import cupy
        except ImportError:
            raise OptionError("timing on a GPU needs CuPy: pip install 'minidecode[cu13]', or [cu12]") from None
        calls, synchronize = (
            calls_on_device(row, functions, arguments, cupy),
            cupy.cuda.get_current_stream().synchronize,
        )
        timings, here = time_by_turns(calls, repeats, synchronize), lambda: this_machine(cupy, synchronize)
        notes = ["arrays live on the GPU, and transfers are counted; 'on the host' is apart: it has no way to the GPU"]
    else:
        calls = {label: (f, arguments) for label, f in functions.items() if label not in kernels}
        timings, here = time_by_turns(calls, repeats), this_machine
        notes = [f"no GPU: {', '.join(kernels)} are right in the emulator, and not timed"]
    m: Machine = here() if machine == "this" else MACHINES[machine]
    cost = row.cost(*arguments)
    least = {f"{m.name} ({m.source})": m.seconds(cost)}
    if machine == "this" and any(t.median < m.seconds(cost) for t in timings):
        notes.append(f"faster than memory: these {cost.bytes / 1e6:.1f} MB stay in a cache")
    return Comparison(name, shape, timings, least, notes)


def calls_on_device(row: Row, functions: dict[str, Callable], arguments: tuple, cupy) -> dict[str, tuple]:
    """Label -> (function, arguments): kernels and NumPy code on the device's arrays, compiled CPU code on the host's.

    What the NumPy code of a row reads as Python numbers (`FETCHED`) it fetches from the device at each call.
    """
    on_device = tuple(_moved(a, cupy.asarray) for a in arguments)
    fetched = [name in getattr(asked_of(row.name), "FETCHED", ()) for name in arguments_of(row, arguments)]

    def with_transfers(function: Callable) -> Callable:
        return lambda *given: function(*(cupy.asnumpy(a) if f else a for a, f in zip(given, fetched, strict=True)))

    calls = {}
    for label, function in functions.items():
        if label.startswith("cpu"):
            calls[f"{label} on the host"] = (function, arguments)
        else:
            is_kernel = label.startswith("cuda")
            calls[label] = (function if is_kernel or not any(fetched) else with_transfers(function), on_device)
    return calls


def _moved(argument, move: Callable):
    """An array, or the arrays of a dataclass, moved to another place; anything else as it is."""
    if dataclasses.is_dataclass(argument):
        fields = {f.name: _moved(getattr(argument, f.name), move) for f in dataclasses.fields(argument)}
        return dataclasses.replace(argument, **fields)
    return move(argument) if isinstance(argument, np.ndarray) else argument


def implementations(row: Row) -> dict[str, Callable]:
    """Label -> function: naive, other ways in NumPy, reference, cpu, and every version of the kernel."""
    found = {}
    for backend in ("reference", "cpu", "cuda"):
        try:
            module = importlib.import_module(f"minidecode.{backend}.{row.name}")
        except ModuleNotFoundError:
            continue
        versions = [f for f in vars(module) if f.startswith(row.op)]  # the naive one first, the op itself last
        for function in sorted(versions, key=lambda f: (f == row.op, not f.endswith("_naive"), f)):
            label = function.removeprefix(row.op).strip("_")
            found[f"{backend} {label}".strip()] = getattr(module, function)
    return found


def time_by_turns(
    calls: dict[str, tuple[Callable, tuple]], repeats: int, synchronize: Callable[[], None] = lambda: None
) -> list[Timing]:
    """Each call once to warm up, then all of them by turns, so that a slow moment of the machine hits them all.

    The order changes from turn to turn, so that none always follows the same one.

    Copies of the arguments are made outside of the timed part; `synchronize` waits for the device inside of it.
    """
    seconds: dict[str, list[float]] = {label: [] for label in calls}
    rng = np.random.default_rng(0)
    for turn in range(repeats + 1):
        for label in rng.permutation(list(calls)).tolist():
            function, arguments = calls[label]
            given = copy.deepcopy(arguments)
            synchronize()
            started = time.perf_counter()
            function(*given)
            synchronize()
            if turn > 0:
                seconds[label].append(time.perf_counter() - started)
    return [Timing(label, statistics.median(s), min(s), max(s)) for label, s in seconds.items()]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f} ms"
