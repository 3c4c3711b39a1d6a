"""Where a kernel is launched: on the GPU, or in the emulator where there is none; and what was launched."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from ..errors import OptionError
from ..within import set_within
from .arrays import Memories, check_current_gpu, device_kind, fetch
from .kernels import launch_on_gpu
from .packing import SCALARS, pack_and_unpack
from .seen_kernels import SEEN, note_kernel

LAUNCHES: ContextVar[Counter[str] | None] = ContextVar("launches", default=None)
TRACED: ContextVar[bool] = ContextVar("traced", default=False)
PATIENCE_OF_A_JUDGE = 3.0  # seconds: its inputs are small
EMULATED: ContextVar[bool] = ContextVar("emulated", default=False)
RECORDED: ContextVar[list[Recorded] | None] = ContextVar("recorded", default=None)
STREAM: ContextVar[int] = ContextVar("stream", default=0)  # the driver's, where kernels of the GPU go
WAY: ContextVar[str] = ContextVar("way", default="packed")  # of launching on the GPU: packed, or numba
EMULATED_DEVICE = "minidecode.emulator.device_array"


class Recorded(NamedTuple):
    """A launch that did not run."""

    kernel: Any
    grid: int | tuple
    block: int | tuple
    arguments: tuple


def launch(kernel: Any, grid: int | tuple, block: int | tuple, *arrays: Any) -> None:
    """Runs kernel[grid, block](*arrays): arrays of CuPy's on the GPU, those of the emulated device in the emulator.

    NumPy arrays go to the emulator without a GPU, or within `InEmulator`; else they are copied to the GPU and back,
    each memory once for all its views (by Numba each view by itself: arrays of records, and all where CuPy is missing).
    That is for tests: what is timed lives there. The emulator stops at the first mistake; within `traced_launches` data
    races are mistakes too. An empty grid launches nothing.
    """
    if (0 in grid) if type(grid) is tuple else grid == 0:
        return
    for array in arrays:
        if type(array) not in SCALARS:
            break
    if arrays and type(array).__module__ == "cupy" and not EMULATED.get():
        if LAUNCHES.get() is not None:
            _count_launch(kernel, "gpu")
        if SEEN.get() is not None:
            note_kernel(kernel, arrays)
        if WAY.get() == "packed":
            return launch_on_gpu(kernel, grid, block, arrays, STREAM.get())
        return _launch_by_numba(kernel, grid, block, arrays)
    if (recorded := RECORDED.get()) is not None:
        recorded.append(Recorded(kernel, grid, block, arrays))
        return
    if any(is_on_emulated_device(array) for array in arrays):
        _count_launch(kernel, "emulator")
        return _launch_on_emulated_device(kernel, grid, block, arrays)
    if not all(isinstance(array, np.ndarray | np.generic | int | float) for array in arrays):
        raise OptionError("these arrays live on a GPU, and Numba finds none here: pass NumPy arrays to the emulator")
    if not EMULATED.get() and device_kind() == "gpu":
        if any(isinstance(array, np.ndarray) for array in arrays) and _are_packable(arrays) and find_spec("cupy"):
            memories = Memories("cuda")
            launch(kernel, grid, block, *memories.put_on_device(arrays))
            return memories.copy_changes_back()
        _count_launch(kernel, "gpu")
        note_kernel(kernel, arrays)
        kernel[grid, block](*arrays)
        return
    _count_launch(kernel, "emulator")
    _emulated_kernel(kernel, grid, block)(
        *(pack_and_unpack(kernel, arrays, any_layout=True) if _are_packable(arrays) else arrays)
    )


def on_current_stream(device: str) -> AbstractContextManager[int | None]:
    """Within it kernels and products go to the stream on which CuPy works in this thread: one waits for the other.

    Raises DeviceError where this thread works on another GPU than the first.
    """
    if device != "cuda":
        return nullcontext()
    check_current_gpu()
    import cupy

    return set_within(STREAM, cupy.cuda.get_current_stream().ptr)


def _count_launch(kernel: Any, place: str) -> None:
    if (launches := LAUNCHES.get()) is not None:
        launches[f"{kernel.py_func.__name__} ({place})"] += 1


def _launch_by_numba(kernel: Any, grid: int | tuple, block: int | tuple, arrays: tuple) -> None:
    """Launches through Numba's dispatcher, which costs the host 60 to 100 us."""
    from numba import cuda

    kernel[grid, block, cuda.external_stream(STREAM.get())](*_arrays_for_numba(arrays))


def _arrays_for_numba(arrays: tuple) -> tuple:
    """CuPy's arrays as Numba's, without the wait for their stream that Numba would add."""
    from numba import cuda

    return tuple(cuda.as_cuda_array(a, sync=False) if type(a).__module__ == "cupy" else a for a in arrays)


def _launch_on_emulated_device(kernel: Any, grid: int | tuple, block: int | tuple, arrays: tuple) -> None:
    from ..emulator.device_array import data_on_device, run_and_record

    run, plain = _emulated_kernel(kernel, grid, block), data_on_device(arrays)
    read = pack_and_unpack(kernel, arrays) if WAY.get() == "packed" else plain
    run_and_record(lambda: run(*read))


def _are_packable(arrays: tuple) -> bool:
    """Whether these arguments of the host's are what a launch packs; what is not, the emulator judges as it is."""
    return all(type(a) in SCALARS or (isinstance(a, np.ndarray) and a.dtype.kind in "biufc") for a in arrays)


def _emulated_kernel(kernel: Any, grid: int | tuple, block: int | tuple) -> Callable[..., None]:
    from ..emulator import emulate

    patience = PATIENCE_OF_A_JUDGE if TRACED.get() else 10.0
    schedules = 5  # forward, backward and two random ones too, for each of the judge's many inputs
    return emulate(kernel, trace=TRACED.get(), strict=True, patience=patience, schedules=schedules)[grid, block]


def is_on_emulated_device(array: Any) -> bool:
    """Whether an array lies on the emulated device."""
    return type(array).__module__ == EMULATED_DEVICE


def counted_launches() -> AbstractContextManager[Counter[str]]:
    """Within it, every launch is counted by the kernel's name and place: no function can vouch for itself."""
    return set_within(LAUNCHES, Counter())


def recorded_launches() -> AbstractContextManager[list[Recorded]]:
    """Within it, launches are noted with their arguments, and no kernel runs: arrays may be as large as a GPU's."""
    return set_within(RECORDED, [])


def traced_launches() -> AbstractContextManager[bool]:
    """Within it, emulated launches look for data races, which right answers may hide; slower."""
    return set_within(TRACED, True)


class OnHost:
    """A host function among ops of a device: on copies of its arrays, and what it changed goes back.

    That is what FastSeq's section 4.2 begins with: n-grams banned by a loop on the CPU, between one transfer there and
    one back. (Weights do not change: they are brought over, each time, and not taken back.)
    """

    def __init__(self, function: Callable):
        self.stands_for = getattr(function, "stands_for", function)
        signature = inspect.signature(function)
        parameters = [p for p in signature.parameters.values() if p.name != "workspace"]  # a device has its own
        self.__signature__ = signature.replace(parameters=parameters)
        self._function = function

    def __call__(self, *args, **kwargs):
        copies: list[tuple[Any, np.ndarray]] = []  # (array of the device, its copy)
        result = self._function(*_copy_to_host(args, copies), **_copy_to_host(kwargs, copies))
        for there, here in copies:
            there[...] = np.asarray(here, like=there)
        return _return_to_device(result, copies)


def _copy_to_host(given: Any, copies: list[tuple[Any, np.ndarray]]) -> Any:
    """Arrays of a device as copies with the host, each once; `copies` gets those that may be changed."""
    if isinstance(given, tuple | list):
        return type(given)(_copy_to_host(part, copies) for part in given)
    if isinstance(given, dict):
        return {name: _copy_to_host(part, copies) for name, part in given.items()}
    if dataclasses.is_dataclass(given):  # weights, norms
        parts = {f.name: _copy_to_host(getattr(given, f.name), []) for f in dataclasses.fields(given)}
        return dataclasses.replace(given, **parts)
    if not hasattr(given, "nbytes") or isinstance(given, np.ndarray | np.generic):
        return given
    for there, here in copies:
        if there is given:
            return here
    copies.append((given, fetch(given)))
    return copies[-1][1]


def _return_to_device(result: Any, copies: list[tuple[Any, np.ndarray]]) -> Any:
    """What a host function returned, on the device; a copy that it was handed is what it is a copy of."""
    if isinstance(result, tuple):
        return tuple(_return_to_device(part, copies) for part in result)
    for there, here in copies:
        if here is result:
            return there
    return np.asarray(result, like=copies[0][0])


class FunctionWithin:
    """A function that runs while a context variable has another value."""

    variable: ContextVar[Any]
    value: Any

    def __init__(self, function: Callable):
        self.stands_for = function
        self.__signature__ = inspect.signature(function)

    def __call__(self, *args, **kwargs):
        with set_within(self.variable, self.value):
            return self.stands_for(*args, **kwargs)


class ByNumba(FunctionWithin):
    """An op of a device whose kernels Numba itself launches; on the emulated device they see arrays as they are."""

    variable, value = WAY, "numba"


class InEmulator(FunctionWithin):
    """A function whose kernels run in the emulator even where there is a GPU."""

    variable, value = EMULATED, True


@functools.lru_cache(maxsize=1024)
def with_numba_launches(function: Callable) -> ByNumba:
    """Wraps a function once: what is kept by a plan's functions is found again."""
    return ByNumba(function)
