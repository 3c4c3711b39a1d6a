"""What kernels would reach on a GPU that is not here: launches at their true size, one block of each on the CPU.

An op's launches are recorded, not run, on arrays of a gigabyte of which only the first rows are filled. The emulator
runs the first block of each, and counts what it asks for. What the machine code says of a kernel is in
kernel_counts.json, or comes from the extra `ptx`. multiprocessor.py makes a time of both. A product of the library
counts by its sizes. What CuPy itself does between launches (a cast, a sum of two arrays) is not counted.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..catalog import Row, arguments_of, find
from ..conformance.rows import axis_to_repeat, make_inputs_to_repeat
from ..device.launch import Recorded, recorded_launches
from ..device.matmul import PRODUCT
from ..device.seen_kernels import note_kernel, seen_kernels
from ..emulator.one_block import Asked, run_first_block
from ..errors import EmulationError, OptionError
from ..ops import Weight
from .compare import implementations, ways_to_store
from .multiprocessor import (
    H100,
    Code,
    Multiprocessors,
    Product,
    combine_limits,
    seconds_by_limit,
    seconds_of_product,
)

MACHINES_WITH_MODEL = {"h100": H100}
MEGABYTES = 1000.0
COUNTS = Path(__file__).with_name("kernel_counts.json")
FILLED = 2  # times that the inputs stand at the begin of the arrays; zeros follow
ROOM = 2  # bytes of the inputs' arrays for each that must move: ops that read little of them are repeated less often


class NotPredictedError(OptionError):
    """The model cannot say what a version would reach."""


@dataclass(frozen=True)
class Launched:
    """A launch of an op: its kernel, what its code says, and what it asks for. A product of the library has no code."""

    kernel: str
    code: Code | None
    work: Asked | Product


@dataclass(frozen=True)
class Counted:
    """The launches of an op's versions, and why others have none."""

    shape: str
    useful: int  # bytes that must move at least
    versions: dict[str, list[Launched]] = dataclasses.field(default_factory=dict)
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Prediction:
    """One version of an op's kernels."""

    label: str
    share: float  # of the bandwidth that a copy has
    seconds: float
    limits: dict[str, float]  # seconds that each limit alone would need
    kernels: tuple[str, ...]

    @property
    def limit(self) -> str:
        """The limit that needs the most time."""
        return max(self.limits, key=lambda name: self.limits[name])


@dataclass(frozen=True)
class Predictions:
    """All versions of an op, for one machine."""

    name: str
    machine: str
    shape: str
    useful: int  # bytes that must move at least
    versions: list[Prediction]
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)  # version -> why it is not predicted

    def as_dict(self) -> dict[str, Any]:
        """The fields for JSON."""
        versions = [{**dataclasses.asdict(v), "limit": v.limit} for v in self.versions]
        return {**dataclasses.asdict(self), "versions": versions}

    def __str__(self) -> str:
        names = list(dict.fromkeys(name for v in self.versions for name in v.limits))
        head = f"{self.name} on {self.machine}, predicted: {self.shape}; {_size_in_words(self.useful)} must move"
        lines = [head, "share of a copy's bandwidth, and the share that each limit alone would allow:"]
        lines.append(f"{'':10}{'share':>6}  {'limited by':<11}" + "".join(f"{n:>9}" for n in names) + "  kernels")
        for v in self.versions:
            least = v.share * v.seconds
            alone = "".join(
                f"{_percent_in_words(least / v.limits[n] if v.limits.get(n) else math.inf):>9}" for n in names
            )
            kernels = ", ".join(dict.fromkeys(v.kernels))
            lines.append(f"{v.label:10}{_percent_in_words(v.share):>6}  {v.limit:<11}{alone}  {kernels}")
        lines += [f"{label:10}{'-':>6}  {why}" for label, why in self.left_out.items()]
        return "\n".join(lines)


def _size_in_words(bytes_: int) -> str:
    if bytes_ < 1e6:
        return f"{bytes_ / 1e3:,.1f} kB"
    return f"{bytes_ / 1e9:.2f} GB" if bytes_ >= 1e8 else f"{bytes_ / 1e6:.1f} MB"


def _percent_in_words(share: float) -> str:
    return "-" if share > 9.99 else f"{share:.0%}"


def predict(
    name: str, machine: str = "h100", stored: str | None = None, megabytes: float = MEGABYTES,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Predictions:  # fmt: skip
    """Each version of the op's kernels on this machine. Raises OptionError where it has none, or counts are missing.

    stored: what weights or caches are stored as. megabytes: that must move; at the default nothing has to be emulated.
    """
    row = find(name)
    if machine not in MACHINES_WITH_MODEL:
        raise OptionError(
            f"machine must be {' or '.join(MACHINES_WITH_MODEL)}, not {machine!r:.80}: it predicts no other"
        )
    functions = kernel_versions(row)
    if not functions:
        raise OptionError(f"{name} has no kernel: nothing runs on a GPU")
    can_be = ways_to_store(row.name)
    if stored is not None and stored not in can_be:
        what = f"say {', '.join(can_be)}" if can_be else "leave it out"
        raise OptionError(f"{name} is not stored as {stored!r}: {what}")
    stored = stored or usual_way_to_store(row.name)
    counted = read_recorded_work(row, stored) if megabytes == MEGABYTES else None
    if counted is None or {*counted.versions, *counted.left_out} != set(functions):
        counted = count_versions(row, megabytes, stored, progress)
    if not counted.versions:
        raise NotPredictedError(f"{name} is not predicted: {next(iter(counted.left_out.values()))}")
    gpu = MACHINES_WITH_MODEL[machine]
    versions = [predict_call(gpu, label, launches, counted.useful) for label, launches in counted.versions.items()]
    return Predictions(row.name, machine, counted.shape, counted.useful, versions, counted.left_out)


def usual_way_to_store(name: str) -> str | None:
    """float16 where an op's weights or caches can be stored so, else the first way."""
    can_be = ways_to_store(name)
    return next((s for s in ("float16", *can_be) if s in can_be), None)


def kernel_versions(row: Row) -> dict[str, Callable[..., Any]]:
    """Label -> function that launches kernels."""
    return {label: f for label, f in implementations(row).items() if label.startswith("cuda")}


def read_recorded_work(row: Row, stored: str | None) -> Counted | None:
    """What kernel_counts.json holds of an op, at the default size."""
    if (kept := read_recorded_counts()["works"].get(f"{row.name} {stored}")) is None:
        return None
    versions = {
        label: [
            Launched(key, None, Product(*work))
            if key == PRODUCT
            else Launched(key, recorded_or_built_code(key), Asked(*work))
            for key, work in launches
        ]
        for label, launches in kept["versions"].items()
    }
    return Counted(kept["shape"], kept["useful"], versions, kept.get("left_out", {}))


def count_versions(
    row: Row, megabytes: float, stored: str | None, progress: Callable[[int, int], None] = lambda done, of: None,
) -> Counted:  # fmt: skip
    """All versions of an op, counted now. Raises OptionError if memory runs out, or machine code is missing."""
    try:
        arguments, shape, useful = enlarge_paper_inputs(row, megabytes, stored)
        counted, functions = Counted(shape, int(useful)), kernel_versions(row)
        for done, (label, function) in enumerate(functions.items()):
            progress(done, len(functions))
            try:
                counted.versions[label] = record_launches_of_call(function, *arguments)
            except NotPredictedError as error:
                counted.left_out[label] = str(error)
    except MemoryError as error:
        raise OptionError(f"not enough memory: {error}; use smaller --megabytes") from None
    return counted


def predict_call(gpu: Multiprocessors, label: str, launches: list[Launched], useful: float) -> Prediction:
    """The launches of one call, one behind the other."""
    seconds, by_limit = 0.0, dict[str, float]()
    for one in launches:
        if isinstance(one.work, Product):
            of_launch, launching = seconds_of_product(gpu, one.work), one.work.calls * gpu.product_launch
        else:
            of_launch, launching = seconds_by_limit(gpu, one.code, one.work, useful), gpu.launch
        seconds += combine_limits(of_launch) + launching
        for name, alone in of_launch.items():
            by_limit[name] = by_limit.get(name, 0.0) + alone
    kernels = tuple(one.kernel.partition("#")[0] for one in launches)
    return Prediction(label, useful / gpu.bandwidth / seconds, seconds, by_limit, kernels)


def record_launches_of_call(function: Callable[..., Any], *arguments: Any) -> list[Launched]:
    """What a call launches: each launch's first block is emulated. The call may fail behind its last launch.

    Arrays that a launch hands to the next hold zeros, for no launch runs. Raises NotPredictedError where the emulator
    does not come to the end of a block.
    """
    launched = []
    for launch in launches_without_work(function, *arguments):
        if launch.kernel == PRODUCT:
            launched.append(Launched(PRODUCT, None, product_of(*launch.arguments)))
            continue
        with seen_kernels() as seen:
            note_kernel(launch.kernel, launch.arguments)
        ((_, types),) = seen
        key = key_of_kernel(launch.kernel, types)
        code = recorded_or_built_code(key, launch.kernel, types)
        try:
            launched.append(Launched(key, code, run_first_block(*launch)))
        except EmulationError as error:
            raise NotPredictedError(f"the emulator stops in {launch.kernel.py_func.__name__}: {error}") from None
    return launched


def launches_without_work(function: Callable[..., Any], *arguments: Any) -> list[Recorded]:
    """What a call launches; nothing runs."""
    failed, how = None, {}
    if "workspace" in inspect.signature(function).parameters:
        how["workspace"] = _allocate_zeros
    with recorded_launches() as recorded, zeros_for_empty(), np.errstate(all="ignore"):
        try:
            function(*arguments, **how)
        except MemoryError:
            raise
        except Exception as error:  # its arrays hold no results
            failed = error
    if not recorded:
        raise NotPredictedError(f"no kernel was launched: {failed}")
    return recorded


@contextmanager
def zeros_for_empty() -> Iterator[None]:
    """Within it np.empty makes zeros: what lay there before would count, for no launch writes there."""
    made = np.empty, np.empty_like
    np.empty, np.empty_like = np.zeros, np.zeros_like
    try:
        yield
    finally:
        np.empty, np.empty_like = made


def product_of(a: Any, b: Any, out: Any, adds: bool) -> Product:
    """What `matmul` asks of the library. Stacks of stacks are a call for each stack."""
    moved = sum(map(_bytes_without_repeats, (a, b, out, *[out] * adds)))
    return Product(math.prod(out.shape[:-3]), moved, 2 * out.size * a.shape[-1], a.itemsize)


def _bytes_without_repeats(array: np.ndarray) -> int:
    """What the array holds; a matrix that stands in several places of a stack counts once."""
    return array.itemsize * math.prod(n for n, stride in zip(array.shape, array.strides, strict=True) if stride)


def _allocate_zeros(shape: Any, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def enlarge_paper_inputs(row: Row, megabytes: float, stored: str | None = None) -> tuple[tuple, str, int]:
    """(inputs, their shape in words, bytes that must move): the paper's, repeated until they move so much.

    Rows are repeated, of products outputs; not so often that their arrays would have more than ROOM times these bytes.
    EL's weights are the same for all sentences, and move once. No memory is taken for the zeros that follow until they
    are touched.
    """
    arguments, shape = make_inputs_to_repeat(row.name, **({"stored": stored} if stored else {}), seed=1)
    arguments = tuple(_weights_by_output(a) for a in arguments)
    once = sum(array.nbytes for name, array in arguments_of(row, arguments).items() if name.startswith("w_"))
    least = row.cost(*arguments).bytes - once
    held = sum(array.nbytes for array in repeat_inputs(row, arguments, 1)[1])
    wanted = 1e6 * megabytes
    times = max(1, min(math.ceil((wanted - once) / least), int(wanted * ROOM / held))) if held else 1
    words = f"{shape}, {times} times" if times > 1 else shape
    return repeat_inputs(row, arguments, times)[0], words, once + times * least


def repeat_inputs(row: Row, arguments: tuple, times: int) -> tuple[tuple, list[np.ndarray]]:
    """(inputs that are this many times as large, those of their arrays that are repeated)."""
    has_weight = any(isinstance(a, Weight) for a in arguments)
    made: dict[int, np.ndarray] = {}  # an array that stands in two places goes on doing so

    def repeat_array(array: np.ndarray, axis: int = 0) -> np.ndarray:
        if id(array) not in made:
            n = array.shape[axis]
            large = made[id(array)] = np.zeros((*array.shape[:axis], times * n, *array.shape[axis + 1 :]), array.dtype)
            for turn in range(min(times, FILLED)):
                large.swapaxes(0, axis)[turn * n : (turn + 1) * n] = array.swapaxes(0, axis)
        return made[id(array)]

    def enlarge_argument(name: str, value: Any) -> Any:
        if isinstance(value, Weight):
            parts = {part: getattr(value, part) for part in ("data", "scale", "bias")}
            return dataclasses.replace(value, **{k: repeat_array(v) if np.ndim(v) else v for k, v in parts.items()})
        if not isinstance(value, np.ndarray) or has_weight or (axis := axis_to_repeat(row.name, name)) is None:
            return value
        return repeat_array(value, axis)

    return tuple(enlarge_argument(*item) for item in arguments_of(row, arguments).items()), list(made.values())


def _weights_by_output(value: Any) -> Any:
    """Weights in the layout in which a model is loaded for a GPU."""
    if isinstance(value, Weight) and value.layout == "io":
        return dataclasses.replace(value, data=np.ascontiguousarray(value.data.T), layout="oi")
    return value


@functools.cache
def read_recorded_counts() -> dict[str, Any]:
    """kernel_counts.json: counts of kernels by key, and works of ops at the default size.

    In the file, launches that follow one another and are equal stand once, with their number.
    """
    record = json.loads(COUNTS.read_text(encoding="utf-8"))
    for work in record["works"].values():
        for launches in work["versions"].values():
            launches[:] = [one for *one, times in launches for _ in range(times)]
    return record


def key_of_kernel(kernel: Any, types: tuple) -> str:
    """The kernel's name, and a checksum of its arguments' types and of the constants in its closure."""
    name, constants = kernel.py_func.__name__, _closure_constants(kernel.py_func)
    mark = f"#{_checksum(repr(constants))}" if constants else ""
    in_short = ", ".join(map(_short_type, types))
    return f"{name}#{_checksum(f'{name}{mark}({in_short})')}"


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _closure_constants(function: Any) -> list:
    """What a function has from the function that made it, and the same of the functions among them."""
    constants = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        value = getattr(cell.cell_contents, "py_func", cell.cell_contents)
        constants.append(
            (name, value.__name__, _closure_constants(value)) if inspect.isfunction(value) else (name, str(value))
        )
    return constants


def _short_type(kind: Any) -> str:
    dtype = getattr(kind, "dtype", None)
    return f"{dtype} {kind.ndim}{kind.layout}" if hasattr(kind, "ndim") else str(kind)


def recorded_or_built_code(key: str, kernel: Any = None, types: tuple = ()) -> Code:
    """The kernel's code for an H100: recorded, or built now. Raises OptionError where neither can be."""
    if (counts := read_recorded_counts()["counts"].get(key)) is not None:
        return Code(*counts)
    if kernel is None:
        raise OptionError(f"kernel_counts.json has no counts of {key}: run benchmarks/multiprocessor.py --counts")
    try:
        return build_code(kernel, types)
    except OptionError as error:
        raise OptionError(f"the machine code of {key.partition('#')[0]} was not counted before, and {error}") from None


@functools.cache
def build_code(kernel: Any, types: tuple) -> Code:
    """The counts of a kernel that is compiled and disassembled now."""
    from ..conformance.kernel_build import compile_and_link

    made = compile_and_link(kernel, types, (9, 0))
    names = [field.name for field in dataclasses.fields(Code)][2:]
    return Code(made.registers, made.shared_bytes, *(round(getattr(made.counts, name), 2) for name in names))
