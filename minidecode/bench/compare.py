"""The implementations of one optimization, checked and then timed against each other."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import os
import platform
import secrets
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ..catalog import Cost, Row, find
from ..conformance import check
from ..conformance.rows import row_module
from ..device.arrays import device_kind
from ..device.launch import counted_launches
from ..device.user_functions import describe_function, find_function
from ..errors import InputError, NumericalError, OptionError, pip_install, shown
from ..options.checks import Whole
from ..plan import has_file_of_row, import_backend_file
from .machines import MACHINES, Machine, known_machines, this_machine
from .verified import Watched, roofline_alarm, time_verified

NAIVE = "reference naive"  # what ratios are to
ON_HOST = " on the host"  # in the label of what runs there beside a GPU


@dataclass
class Timing:
    """Seconds of one implementation: the median, and the fastest and slowest of the runs."""

    implementation: str
    median: float
    fastest: float
    slowest: float


@dataclass
class Comparison:
    """What `compare` found; str() of it is the table. Ratios are to the first, the naive one.

    cost is what any implementation must move and compute at least, so `reached` counts useful bytes and operations:
    what an implementation moves beyond them makes it look slower, as it should. amounts: bytes by implementation, where
    they are what an optimization buys, and not time; then ratios are of them.
    """

    name: str
    shape: str
    cost: Cost
    timings: list[Timing]
    machine: Machine  # where it was timed, as measured then
    predicted: list[Machine]  # others
    notes: list[str] = field(default_factory=list)
    where: dict[str, str] = field(default_factory=dict)  # processor, cores, versions
    amounts: dict[str, int] = field(default_factory=dict)

    def ratio(self, timing: Timing) -> float:
        """How many times less than the naive implementation: seconds, or bytes where these are what is bought."""
        naive = self.timings[0]
        if self.amounts:
            return self.amounts[naive.implementation] / self.amounts[timing.implementation]
        return naive.median / timing.median

    def reached(self, timing: Timing) -> tuple[float, float, float]:
        """(bytes/s, operations/s, share of the machine's limit) of the median run."""
        seconds = timing.median
        return self.cost.bytes / seconds, self.cost.operations / seconds, self.machine.seconds(self.cost) / seconds

    def as_dict(self) -> dict:
        machine, *others = [
            {"name": m.name, "source": m.source, "bandwidth": m.bandwidth, "operations": m.operations,
             "int8_operations": m.int8_operations, "least_seconds": m.seconds(self.cost)}
            for m in (self.machine, *self.predicted)
        ]  # fmt: skip
        timings = []
        for t in self.timings:
            bytes_, operations, share = self.reached(t)
            timings.append(vars(t) | {"bytes_per_second": bytes_, "operations_per_second": operations, "share": share})
        return {
            "name": self.name, "shape": self.shape, "cost": vars(self.cost), "timings": timings, "machine": machine,
            "predicted": others, "notes": self.notes, "where": self.where, "amounts": self.amounts,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, record: dict) -> Comparison:
        """What `as_dict` wrote. Raises KeyError or TypeError if it is something else."""
        machine, *others = [
            Machine(m["name"], m["bandwidth"], m["operations"], m["source"], int8_operations=m.get("int8_operations"))
            for m in (record["machine"], *record["predicted"])
        ]
        timings = [Timing(*(t[f.name] for f in dataclasses.fields(Timing))) for t in record["timings"]]
        return cls(record["name"], record["shape"], Cost(**record["cost"]), timings, machine, others, record["notes"],
                   record["where"], record.get("amounts", {}))  # fmt: skip

    def __str__(self) -> str:
        return self._table_of_amounts() if self.amounts else self._table_of_times()

    def _table_of_amounts(self) -> str:
        lines = [
            f"{self.name}: {self.shape}",
            f"{'here':<28} {'bytes':>14} {'smaller':>8} {'median time':>14} {'fastest to slowest':>25}",
        ]
        for t in self.timings:
            spread = f"{_milliseconds_in_words(t.fastest)} to {_milliseconds_in_words(t.slowest)}"
            lines.append(
                f"{t.implementation:<28} {self.amounts[t.implementation]:>14,} {self.ratio(t):>7.1f}x"
                f" {_milliseconds_in_words(t.median):>14} {spread:>25}"
            )
        return "\n".join([*lines, *self.notes])

    def _table_of_times(self) -> str:
        unit = "Gop/s" if self.cost.int8_operations else "GFLOP/s"
        lines = [
            f"{self.name}: {self.shape}",
            f"{'measured here':<28} {'median':>11} {'fastest to slowest':>25} {'speed':>8} {'GB/s':>7} {unit:>8}"
            f" {'of roof':>8}",
        ]
        for t in self.timings:
            spread = f"{_milliseconds_in_words(t.fastest)} to {_milliseconds_in_words(t.slowest)}"
            bytes_, operations, share = self.reached(t)
            lines.append(
                f"{t.implementation:<28} {_milliseconds_in_words(t.median):>11} {spread:>25} {self.ratio(t):>7.1f}x"
                f" {bytes_ / 1e9:>7.2f} {operations / 1e9:>8.2f} {share:>8.1%}"
            )
        cost = f"{self.cost.bytes / 1e6:,.3f} MB, {self.cost.operations / 1e6:,.3f} million operations"
        if self.cost.int8_operations:
            cost += f" ({self.cost.int8_operations / 1e6:,.3f} with bytes)"
        lines.append(f"at the least: {cost}; in that time at best:")
        for m in (self.machine, *self.predicted):
            limits = f"{m.bandwidth / 1e9:,.1f} GB/s, {m.operations / 1e9:,.0f} GFLOP/s"
            if self.cost.int8_operations and m.int8_operations:
                limits += f", {m.int8_operations / 1e9:,.0f} Gop/s with bytes"
            lines.append(
                f"  {m.name + ' (' + m.source + ')':<50} {_milliseconds_in_words(m.seconds(self.cost)):>11}  {limits}"
            )
        return "\n".join([*lines, *self.notes])


def compare(
    name: str, *, functions: Iterable[str | Callable] = (), repeats: int = 9, machine: str | Iterable[str] = (),
    stored: str | None = None, progress: Callable[[float, int], None] = lambda done, total: None,
) -> Comparison:  # fmt: skip
    """Checks every implementation of an optimization, then times them by turns, on inputs of the paper's size.

    functions: yours, to be checked and timed beside ours, as FILE.py:FUNCTION (the file is executed) or as they are.
    Then each turn has values of its own, and each result of yours is compared; what cheats is refused (verified.py).

    On a GPU (with CuPy) kernels run there, on arrays that live there; code in NumPy and compiled CPU code runs on the
    host, on arrays of the host, and its labels say so: no transfer is timed. Without a GPU kernels are left out, for an
    emulator's time says nothing about a GPU's; `check` runs them there.

    machine: what else the cost model predicts for, beside this machine, whose limits are measured: v100, t4, h100 or
    h200.
    stored: what the weights that are multiplied by, or the caches that are read, are stored as: float32, float16 or,
    of weights, int8; by default as the row has it. progress(done, total) is called with how many implementations have
    been checked; timing counts as one more. Raises NumericalError if an implementation is wrong: nothing is timed then;
    and RefusedError if a function of yours cannot be timed fairly.
    """
    others = [m for m in known_machines(machine, "this") if m != "this"]
    Whole(1)("repeats", repeats)
    row, asked = find(name), row_module(name)
    if stored is not None and stored not in ways_to_store(name):
        may_be = ", ".join(ways_to_store(name))
        what = f"say {may_be}" if may_be else "it is timed in one type alone, as it comes"
        raise OptionError(f"compare {name} times nothing that is stored as {stored!r}: {what}")
    watched = Watched(row)  # before a file of the user's is executed
    ours, yours = implementations(row), functions_by_label(functions)
    kernels = [label for label in ours if label.startswith("cuda")]
    if device_kind() != "gpu":
        ours = {label: f for label, f in ours.items() if label not in kernels}
    for label in yours:
        watched.refuse_replaced(label)
    every = ours | yours
    for i, (label, function) in enumerate((yours | ours).items()):  # yours first, for no time is lost where it is wrong
        with counted_launches() as launches:
            verdict = check(
                name, function, examples=25 if label in ours and label.startswith("cuda") else 100,
                promised=label != NAIVE,
                progress=lambda done, total, i=i: progress(i + done / total, len(every) + 1),
            )  # fmt: skip
        if label in yours:
            watched.refuse_replaced(label)
        if not verdict.ok:
            raise NumericalError(f"{label} is wrong, so nothing is timed.\n{verdict}")
        if label in yours and any("(emulator)" in kernel for kernel in launches):
            raise OptionError(
                f"{label} launches kernels, which run in the emulator here: it is right, and can be timed on a machine"
                " with a GPU alone"
            )
    how = {} if stored is None else {"stored": stored}
    arguments, shape = asked.make_paper_inputs(**how)
    cost = row.cost(*arguments)
    if device_kind() == "gpu":
        try:
            import cupy
        except ImportError:
            raise OptionError(f"timing on a GPU needs CuPy: {pip_install('cupy', 'cu13')}") from None
        synchronize = cupy.cuda.get_current_stream().synchronize

        def calls(arguments: tuple) -> dict[str, tuple]:
            return copy_calls_to_device(ours, arguments, cupy)

        here = this_machine(cupy, synchronize, int8=cost.int8_operations > 0)
        notes = [f"{', '.join(kernels) or 'nothing'} ran on the GPU, on arrays there; no transfer is timed"]
    else:
        synchronize, here = wait_for_nothing, this_machine(int8=cost.int8_operations > 0)

        def calls(arguments: tuple) -> dict[str, tuple]:
            return {label: (f, arguments) for label, f in ours.items()}

        notes = [f"no GPU: kernels ({', '.join(kernels)}) are not timed; minidecode predict {name} rates them"]
        notes = notes if kernels else []
    if yours:
        fresh = functools.partial(_input_values, asked, how)
        seconds, submissions = time_verified(row, calls, yours, fresh, repeats, synchronize)
        timings = [_summarize_timing(label, s) for label, s in seconds.items()]
        for submission in submissions:
            median = statistics.median(seconds[submission.label])
            submission.refuse_impossible(median, cost, here)
            watched.refuse_replaced(submission.label)
            notes += filter(None, [roofline_alarm(submission.label, median, cost, here)])
    else:
        timings = time_by_turns(calls(arguments), repeats, synchronize)
    amounts = {}
    if bytes_needed := getattr(
        asked, "bytes_needed", None
    ):  # bytes are what it buys: how fast it is itself is beside the point
        timed = {t.implementation: every[t.implementation.removesuffix(ON_HOST)] for t in timings}
        amounts = {label: bytes_needed(f(*copy.deepcopy(arguments)), *arguments) for label, f in timed.items()}
        notes += asked.timing_notes(*arguments)
        if others:
            notes.append(f"nothing is predicted for {', '.join(others)}: bytes are the same on every machine")
            others = []
    elif any(t.median < cost.bytes / here.bandwidth for t in timings):
        notes.append(f"faster than memory: these {cost.bytes / 1e6:.1f} MB stay in a cache")
    if any(t.median < here.computing_seconds(cost) for t in timings):
        notes.append("faster than the products that this machine was measured by: measure again, it was busy then")
    progress(len(every) + 1, len(every) + 1)
    predicted = [MACHINES[m] for m in others]
    return Comparison(name, shape, cost, timings, here, predicted, notes, describe_machine(), amounts)


def functions_by_label(functions: Iterable[str | Callable]) -> dict[str, Callable]:
    """Label -> the user's function; a place such as mine.py:ban is executed now."""
    by_label: dict[str, Callable] = {}
    for function in [functions] if isinstance(functions, str) or not isinstance(functions, Iterable) else functions:
        if not isinstance(function, str) and not callable(function):
            raise OptionError(f"functions must be FILE.py:FUNCTION, or functions, not {shown(function)}")
        label = Path(function).name if isinstance(function, str) else describe_function(function).partition(" (")[0]
        if label in by_label:
            raise OptionError(f"{label} is given twice: name each function once")
        by_label[label] = find_function(function) if isinstance(function, str) else function
    return by_label


def _input_values(asked: Any, how: dict[str, str], n: int) -> tuple:
    """New values at each call: a file that knew them when it was imported could bring the answers along."""
    return asked.make_paper_inputs(**how, seed=secrets.randbits(32))[0]


def wait_for_nothing() -> None:
    """Does nothing: nothing is queued."""


def ways_to_store(name: str) -> tuple[str, ...]:
    """What the weights or caches of a row may be stored as; nothing where it reads none."""
    return getattr(row_module(name), "STORED", ())


def describe_machine() -> dict[str, str]:
    """What a reader of figures must know of the machine: processor or GPU, cores, versions."""
    facts = {"processor": name_of_processor(), "cores": str(os.cpu_count()), "system": platform.system(),
             "device": device_kind(), "python": platform.python_version()}  # fmt: skip
    if device_kind() == "gpu":
        from numba import cuda

        facts["gpu"] = str(cuda.get_current_device().name)
    return facts | {package: version(package) for package in ("minidecode", "numpy", "numba")}


def name_of_processor() -> str:
    """The processor's name, where the system knows it, and its architecture."""
    cpuinfo, architecture = Path("/proc/cpuinfo"), platform.machine()
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor()
    return f"{name} {architecture}" if name not in ("", architecture) else architecture


def table_of_comparisons(files: dict[str, list[Comparison]]) -> str:
    """Recorded comparisons as one table: a column of medians for each file, with the speed over its own naive version.

    What one file has and another has not is left blank. Figures of different shapes are not set beside each other.
    """
    columns = {label: {(c.name, c.shape): c for c in comparisons} for label, comparisons in files.items()}
    names = list(dict.fromkeys(key for column in columns.values() for key in column))
    width = max(24, *map(len, files))
    lines = [f"{'':<28}" + "".join(f" {label:>{width}}" for label in files)]
    for key in names:
        lines.append(f"{key[0]}: {key[1]}")
        here = {label: column.get(key) for label, column in columns.items()}
        for implementation in dict.fromkeys(t.implementation for c in here.values() if c for t in c.timings):
            cells = [_cell_of_table(c, implementation) if c else "" for c in here.values()]
            lines.append(f"  {implementation:<26}" + "".join(f" {cell:>{width}}" for cell in cells))
        if any(c and c.amounts for c in here.values()):
            continue
        least = [_milliseconds_in_words(c.machine.seconds(c.cost)) if c else "" for c in here.values()]
        lines.append(f"  {'at the least, of its own':<26}" + "".join(f" {cell:>{width}}" for cell in least))
    return "\n".join(lines)


def _cell_of_table(comparison: Comparison, implementation: str) -> str:
    timing = next((t for t in comparison.timings if t.implementation == implementation), None)
    if timing is None:
        return ""
    smaller = " smaller" if comparison.amounts else ""
    return f"{_milliseconds_in_words(timing.median)} ({comparison.ratio(timing):,.1f}x{smaller})"


def read_comparisons(path: Path) -> list[Comparison]:
    """The comparisons that `compare --json` printed into a file: one, or a list. Raises InputError on other files."""
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
        return [Comparison.from_dict(c) for c in (records if isinstance(records, list) else [records])]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{path} holds no comparisons: write one with minidecode compare NAME --json") from None


def copy_calls_to_device(functions: dict[str, Callable], arguments: tuple, cupy) -> dict[str, tuple]:
    """Label -> (function, arguments): kernels on the device's arrays; code in NumPy and compiled code on the host's.

    The label says so of what runs on the host.
    """
    there: dict[int, Any] = {}

    def put_once(array: np.ndarray) -> Any:  # one that stands in two places goes there once, as cost models count it
        if id(array) not in there:
            there[id(array)] = cupy.asarray(array)
        return there[id(array)]

    on_device = tuple(_move_arrays(a, put_once) for a in arguments)
    kernels = {label: (f, on_device) for label, f in functions.items() if label.startswith("cuda")}
    others = {f"{label}{ON_HOST}": (f, arguments) for label, f in functions.items() if label not in kernels}
    return others | kernels  # the naive version first, which ratios are to


def _move_arrays(argument, move: Callable):
    """An array, or the arrays of a dataclass, moved to another place; anything else as it is."""
    if dataclasses.is_dataclass(argument):
        fields = {f.name: _move_arrays(getattr(argument, f.name), move) for f in dataclasses.fields(argument)}
        return dataclasses.replace(argument, **fields)
    return move(argument) if isinstance(argument, np.ndarray) else argument


def implementations(row: Row) -> dict[str, Callable]:
    """Label -> function: naive, other ways in NumPy, reference, cpu, and every version of the kernel."""
    functions = {}
    for backend in ("reference", "cpu", "cuda"):
        if not has_file_of_row(row, backend):
            continue
        module = import_backend_file(backend, row.name)
        versions = [f for f in vars(module) if f.startswith(row.op)]  # the naive one first, the op itself last
        for function in sorted(versions, key=lambda f: (f == row.op, not f.endswith("_naive"), f)):
            label = function.removeprefix(row.op).strip("_")
            functions[f"{backend} {label}".strip()] = getattr(module, function)
    return functions


def time_by_turns(
    calls: dict[str, tuple[Callable, tuple]], repeats: int, synchronize: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Timing]:  # fmt: skip
    """Each call once to warm up, then all of them by turns, so that a slow moment of the machine hits them all.

    The order changes from turn to turn, so that none always follows the same one.

    Copies of the arguments are made outside of the timed part; `synchronize` waits for the device inside of it.
    clock: `time.thread_time`, of what runs in one thread, stands still while other programs have its core.
    """
    seconds: dict[str, list[float]] = {label: [] for label in calls}
    rng = np.random.default_rng(0)
    for turn in range(repeats + 1):
        for label in rng.permutation(list(calls)).tolist():
            function, arguments = calls[label]
            given = copy.deepcopy(arguments)
            synchronize()
            started = clock()
            function(*given)
            synchronize()
            if turn > 0:
                seconds[label].append(clock() - started)
    return [_summarize_timing(label, s) for label, s in seconds.items()]


def _summarize_timing(label: str, seconds: list[float]) -> Timing:
    return Timing(label, statistics.median(seconds), min(seconds), max(seconds))


def _milliseconds_in_words(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f} ms"
