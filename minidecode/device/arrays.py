"""Where arrays are and kernels run: on the host, on a GPU, or on an emulated device."""

from __future__ import annotations

import functools
import importlib
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import Any, Literal

import numpy as np

from ..errors import DeviceError, OptionError, did_you_mean, pip_install, quoted
from .low_precision import map_arrays

DEVICES = ("cpu", "cuda", "emulator", "auto")


def device_kind() -> Literal["gpu", "emulator", "none"]:
    """Says "gpu" if Numba finds a CUDA device, "emulator" under Numba's own simulator, else "none".

    `numba.cuda.is_available()` alone would call the simulator a GPU.
    """
    from numba import config, cuda

    if config.ENABLE_CUDASIM:
        return "emulator"
    return "gpu" if cuda.is_available() else "none"


def chosen_device(name: str) -> str:
    """`name`, or for "auto": "cuda" where a GPU and CuPy are found, else "cpu".

    Raises OptionError on another name, and on "cuda" where it cannot run; DeviceError on a GPU that is not the first.
    """
    if name not in DEVICES:
        near = "; did you mean cuda?" if name == "gpu" else did_you_mean(str(name), DEVICES)
        raise OptionError(f"device={name!r} is not one of {', '.join(DEVICES)}{near}")
    if name in ("cpu", "emulator"):
        return name
    missing = _why_no_cuda()
    if name == "cuda" and missing:
        raise OptionError(f"device=cuda: {missing}; device=emulator runs the same code without, on toy shapes")
    if missing:
        return "cpu"
    check_current_gpu()
    return "cuda"


def check_current_gpu() -> None:
    """Raises DeviceError unless this thread works on the first GPU that the process sees.

    Loaded kernels, handles of cuBLAS and measured tables are kept without a GPU's number: all are of that one.
    """
    import cupy

    if number := cupy.cuda.runtime.getDevice():
        raise DeviceError(
            f"GPU {number} is current in this thread, and a process works on its first GPU, 0, alone: start a process"
            " for each GPU, and choose its GPU by CUDA_VISIBLE_DEVICES"
        )


def _why_no_cuda() -> str | None:
    if device_kind() != "gpu":
        return "Numba finds no GPU here (minidecode doctor says what is missing)"
    try:
        import cupy  # noqa: F401
    except ImportError:
        return f"CuPy is not installed ({pip_install('cupy', 'cu13')})"
    return why_kernels_do_not_compile()


NUMPY_OF_KERNELS = "numpy<2.5"  # what the extras cu12, cu13 and ptx ask for


@functools.cache
def why_kernels_do_not_compile() -> str | None:
    """What stops Numba's CUDA compiler from being loaded beside this NumPy, and the remedy; None if it loads.

    `import numba.cuda` tells nothing: the part that may fail is loaded when the first kernel is compiled.
    """
    try:
        importlib.import_module("numba.cuda.cudaimpl")
    except (AttributeError, ImportError) as error:
        names = metadata.packages_distributions().get("numba_cuda", ["numba"])
        return (
            f"{names[0]} {metadata.version(names[0])} does not go with NumPy {np.__version__} ({error}): pip install"
            f" {quoted(NUMPY_OF_KERNELS)}"
        )
    return None


def put(array: np.ndarray, device: str) -> Any:
    """A host array, on the device: CuPy's, or one of the emulated device; on the CPU it stays as it is."""
    if device == "cuda":
        import cupy

        return cupy.asarray(array)
    if device == "emulator":
        from ..emulator.device_array import copy_to_emulator

        return copy_to_emulator(array)
    return array


def copy_to_device(device: str, weights: Any) -> Any:
    """A copy of a tree of weights with its arrays on a device; an array that occurs several times is copied once."""
    there: dict[int, Any] = {}

    def put_once(array: np.ndarray) -> Any:
        if id(array) not in there:
            there[id(array)] = put(array, device)
        return there[id(array)]

    copied = map_arrays(weights, put_once)
    if device == "cuda":  # a generation may work on another stream
        import cupy

        cupy.cuda.get_current_stream().synchronize()
    return copied


class Memories:
    """Arrays of the host's on a device, as they lie to each other: each memory is there once, views of it are views.

    Strides, offsets and overlaps stay, so that what is written through one view is read through another.
    """

    def __init__(self, device: str):
        self.device = device
        self._both: dict[tuple[int, int], tuple[np.ndarray, Any]] = {}  # by address and size: its bytes here and there
        self._views: dict[int, tuple[np.ndarray, Any]] = {}  # by the array's id, the array here and there

    def put_on_device(self, given: Any) -> Any:
        """A tree of tuples and dataclasses with the device's arrays in place of the host's."""
        return map_arrays(given, self._view_on_device)

    def copy_changes_back(self) -> None:
        """Copies what has changed on the device to the host arrays that can be written."""
        for here, there in self._both.values():
            if here.flags.writeable:
                here[...] = fetch(there)

    def result_on_host(self, result: Any) -> Any:
        """Results for the host: a view of a memory that was brought is a view of it here, any other array a copy."""
        if isinstance(result, tuple):
            return tuple(map(self.result_on_host, result))
        if not is_array(result) or isinstance(result, np.ndarray):
            return result
        for here, there in self._both.values():
            if there.nbytes and 0 <= (offset := address_of(result) - address_of(there)) < there.nbytes:
                return view_at_offset(here, offset, result)
        return fetch(result)

    def _view_on_device(self, array: np.ndarray) -> Any:
        if id(array) not in self._views:
            here, there = self._both_memories(array)
            offset = address_of(array) - address_of(here) if array.size else 0
            self._views[id(array)] = array, view_at_offset(there, offset, array)
        return self._views[id(array)][1]

    def _both_memories(self, array: np.ndarray) -> tuple[np.ndarray, Any]:
        while isinstance(array.base, np.ndarray):
            array = array.base
        if (place := (address_of(array), array.nbytes)) not in self._both:
            here = array.ravel(order="K").view(np.uint8)
            if array.size and not np.shares_memory(here, array):
                raise ValueError(f"the memory of an array {array.dtype}{array.shape} does not lie in one piece")
            self._both[place] = here, put(here, self.device)
        return self._both[place]


def view_at_offset(whole: Any, offset: int, like: Any) -> Any:
    """A view of some bytes, here or on a device, with the shape, dtype and strides of another array."""
    if isinstance(whole, np.ndarray):
        return np.ndarray(like.shape, like.dtype, whole, offset, like.strides)
    if type(whole).__module__ == "minidecode.emulator.device_array":
        return type(whole)(view_at_offset(whole.there, offset, like), whole)
    return type(whole)(like.shape, like.dtype, whole.data + offset, like.strides)


@contextmanager
def poisoned_memory(device: str) -> Iterator[None]:
    """Within it, arrays that are made there without numbers hold bytes of ones, NaN as floats, until they are written.

    A device's pool lends memory again, and a kernel that forgets to write would find the right answer of last time.
    """
    if device == "emulator":
        from ..emulator.device_array import poisoned_arrays

        with poisoned_arrays():
            yield
        return
    import cupy

    pool = cupy.get_default_memory_pool()

    def malloc(size: int) -> Any:
        memory = pool.malloc(size)
        if size:
            cupy.cuda.runtime.memset(memory.ptr, 0xFF, size)
        return memory

    with cupy.cuda.using_allocator(malloc):
        yield


def fetch(array: Any) -> np.ndarray:
    """The array on the host: a wait and a copy, if it lies on a device."""
    return array if isinstance(array, np.ndarray) else array.get()


_ON_HOST: dict[int, tuple[weakref.ref, np.ndarray]] = {}  # by the id of an array of a device: its numbers


def fetch_constant(array: Any) -> np.ndarray:
    """The numbers of an array that never changes, such as offsets: a device is asked for them once, and waits once."""
    if isinstance(array, np.ndarray):
        return array
    key = id(array)
    if key not in _ON_HOST:
        _ON_HOST[key] = weakref.ref(array, lambda _: _ON_HOST.pop(key, None)), fetch(array)
    return _ON_HOST[key][1]


def put_constant(array: np.ndarray, device: str) -> Any:
    """A host array that never changes, on the device: `fetch_constant` returns it without asking the device."""
    there = put(array, device)
    if there is not array:
        key = id(there)
        _ON_HOST[key] = weakref.ref(there, lambda _: _ON_HOST.pop(key, None)), array
    return there


def is_array(thing: Any) -> bool:
    """Whether it is an array, on the host or on a device."""
    return hasattr(thing, "__array_function__")


def address_of(array: Any) -> int:
    """The address of an array's first number, in the host's memory or a device's."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def repeat_each(array: Any, times: int) -> Any:
    """Repeats each number, one copy after the other, in a new array. (CuPy's `repeat` copies number by number.)"""
    return np.broadcast_to(array[:, None], (len(array), times)).copy().reshape(-1)


def array_like(like: Any, shape: int | tuple[int, ...], dtype: Any, fill: Any) -> Any:
    """An array that lies where `like` does, filled with a number or with numbers on the host."""
    host = np.empty(shape, dtype)
    host[...] = fill
    return np.asarray(host, like=like)
