"""A kernel's launch on a GPU: machine code that is kept by the types of its arguments, and arguments packed by hand.

Numba's own launch looks at each argument anew: it wraps arrays, finds the compiled version by their types, and makes a
configuration. With CuPy's arrays that takes the host 60 to 100 us, while a small kernel runs for 2 us. Here a launch is
one look-up, one `struct.pack` and one call of the driver.

What the driver gets of an array is what Numba compiled the kernel for: seven or more numbers of eight bytes, which are
two empty pointers, the size, the bytes of a number, the address, the shape and the strides. Of a scalar it gets the
number itself. In the layout "C" compiled code never reads the strides: the layout is part of the look-up.

Machine code lies in the folder of compiled code, so that a machine compiles each kernel once. Its name holds a hash of
the package's sources, of the types, the architecture and the versions.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
import os
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DeviceError

SCALARS = {  # how Numba types a scalar, and how the driver takes it, in eight bytes
    bool: ("boolean", "?7x"), int: ("int64", "q"), float: ("float64", "d"), np.bool_: ("boolean", "?7x"),
    np.float32: ("float32", "f4x"), np.float64: ("float64", "d"), np.int32: ("int32", "i4x"), np.int64: ("int64", "q"),
}  # fmt: skip
PACKAGE = Path(__file__).resolve().parents[1]
SOURCES = ("cuda/**/*.py", "reference/**/*.py", "ops.py", "device/low_precision.py", "device/weight_blocks.py")
MOST_SHAPES = 100_000  # whose packed form is kept

_LOADED: dict[tuple, Loaded] = {}
_ARRAYS: dict[tuple, tuple[int, tuple, tuple]] = {}  # (type's number, what is packed before the address, and behind)
_TYPES: dict[tuple, int] = {}  # (name, ndim, layout) of an array, or the name of a scalar's type -> its number
_LOCK = threading.Lock()
_THREAD = threading.local()  # .ready: whether the GPU's context is current there


@dataclass
class Loading:
    """What first launches of kernels took, in this process and on this machine."""

    kernels: int = 0  # that came to the GPU
    seconds: float = 0.0  # all of it
    compiled: int = 0  # of these kernels, whose machine code was not on disk
    compile_seconds: float = 0.0  # of these seconds

    def __str__(self) -> str:
        compiled = f", {self.compile_seconds:.3f} s of it to compile {self.compiled}" if self.compiled else ""
        return f"{self.seconds:.3f} s loaded {self.kernels} kernels{compiled}; later calls have them"


LOADING: ContextVar[Loading | None] = ContextVar("loading", default=None)


@contextmanager
def noted_loading() -> Iterator[Loading]:
    """Within it, kernels that are launched for the first time are noted."""
    loading = Loading()
    token = LOADING.set(loading)
    try:
        yield loading
    finally:
        LOADING.reset(token)


class Loaded:
    """A kernel's machine code on the GPU, for one tuple of argument types."""

    def __init__(self, kernel: Any, types: list[tuple]):
        from cuda.bindings import driver

        cubin, name = machine_code(kernel, types)
        self.name = kernel.py_func.__name__
        self._module = _checked(driver.cuModuleLoadData(cubin), self.name)[0]
        (self._function,) = _checked(driver.cuModuleGetFunction(self._module, name.encode()), self.name)
        self._launch = driver.cuLaunchKernel
        layout = [format for kind in types for format in _formats(kind)]
        self._pack = struct.Struct("=" + "".join(layout)).pack_into
        self._size, self._idle = 8 * len(layout), []

    def launch(self, grid: tuple[int, int, int], block: tuple[int, int, int], stream: int, values: list) -> None:
        """One launch. The driver has copied the arguments when it returns."""
        buffer, address = self._idle.pop() if self._idle else self._room()
        self._pack(buffer, 0, *values)
        failed = self._launch(self._function, *grid, *block, 0, stream, address, 0)[0]
        self._idle.append((buffer, address))
        if failed:
            raise DeviceError(f"kernel {self.name} was not launched: {failed.name}")

    def _room(self) -> tuple[Any, int]:
        """Room for the arguments, and the address of a table of where each of them lies."""
        buffer = ctypes.create_string_buffer(self._size)
        first = ctypes.addressof(buffer)
        table = (ctypes.c_void_p * (self._size // 8))(*range(first, first + self._size, 8))
        buffer.table = table  # lives as long
        return buffer, ctypes.addressof(table)


def launch_on_gpu(kernel: Any, grid: int | tuple, block: int | tuple, arguments: tuple, stream: int = 0) -> None:
    """kernel[grid, block, stream](*arguments) for CuPy's arrays and scalars. Raises DeviceError if it cannot run."""
    if not getattr(_THREAD, "ready", False):
        _make_current()
    key: list[Any] = [kernel]
    values: list[Any] = []
    for argument in arguments:
        scalar = SCALARS.get(type(argument))
        if scalar is None:
            kept = _ARRAYS.get((argument.dtype, argument.shape, argument.strides)) or _described(argument)
            key.append(kept[0])
            values += kept[1]
            values.append(argument.data.ptr)
            values += kept[2]
        else:
            key.append(scalar[0])
            values.append(argument)
    loaded = _LOADED.get(tuple(key)) or _load(kernel, arguments, tuple(key))
    loaded.launch(_in_three_dimensions(grid), _in_three_dimensions(block), stream, values)


def _described(array: Any) -> tuple:
    """What is the same for all arrays of a type, shape and strides."""
    shape, strides, dtype = array.shape, array.strides, array.dtype
    if len(_ARRAYS) > MOST_SHAPES:
        _ARRAYS.clear()
    number = _TYPES.setdefault(type_of(array), len(_TYPES))
    described = number, (0, 0, math.prod(shape), dtype.itemsize), (*shape, *strides)
    _ARRAYS[dtype, shape, strides] = described
    return described


def type_of(argument: Any) -> tuple:
    """(dtype, ndim, layout) of an array: C where rows follow each other without gaps, F the reverse, else A.

    Of a scalar, (the name of its type,).
    """
    if type(argument) in SCALARS:
        return (SCALARS[type(argument)][0],)
    flags = argument.flags
    layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
    return argument.dtype.name, len(argument.shape), layout


def numba_types(types: list[tuple]) -> tuple:
    """Noted types as Numba's types."""
    from numba.cuda import types as of_numba
    from numba.cuda.np.numpy_support import from_dtype

    return tuple(
        of_numba.Array(from_dtype(np.dtype(kind[0])), *kind[1:]) if len(kind) == 3 else getattr(of_numba, kind[0])
        for kind in types
    )


def machine_code(kernel: Any, types: list[tuple]) -> tuple[bytes, str]:
    """(cubin, name of the entry) for this machine's GPU: from disk, or compiled and written there."""
    with _LOCK:
        file = _file_of(kernel, types)
        if file is not None and file.exists():
            name, _, cubin = file.read_bytes().partition(b"\n")
            return cubin, name.decode()
        from numba.cuda.dispatcher import _Kernel

        started = time.perf_counter()
        built = _Kernel(kernel.py_func, numba_types(types), **kernel.targetoptions)
        cubin = built._codelibrary.get_cubin()
        cubin = getattr(cubin, "code", cubin)
        if (loading := LOADING.get()) is not None:
            loading.compiled += 1
            loading.compile_seconds += time.perf_counter() - started
        if file is not None:
            _write(file, built.entry_name.encode() + b"\n" + cubin)
        return cubin, built.entry_name


def _load(kernel: Any, arguments: tuple, key: tuple) -> Loaded:
    started, loading = time.perf_counter(), LOADING.get()
    loaded = _LOADED.setdefault(key, Loaded(kernel, [type_of(argument) for argument in arguments]))
    if loading is not None:
        loading.kernels += 1
        loading.seconds += time.perf_counter() - started
    return loaded


def _formats(kind: tuple) -> list[str]:
    """How `struct` packs one argument of this type, eight bytes each."""
    if len(kind) == 3:
        return ["q"] * (5 + 2 * kind[1])
    return [next(form for name, form in SCALARS.values() if name == kind[0])]


def _in_three_dimensions(size: int | tuple) -> tuple[int, int, int]:
    """A grid or a block in three dimensions."""
    if not isinstance(size, tuple):
        return int(size), 1, 1
    return (*map(int, size), *(1,) * (3 - len(size)))  # type: ignore[return-value]


def _make_current() -> None:
    """CuPy's context, which is the device's own, becomes this thread's."""
    import cupy

    cupy.cuda.runtime.free(0)
    _THREAD.ready = True


def _checked(answer: tuple, name: str) -> tuple:
    """What the driver gave, without its code. Raises DeviceError if that says so."""
    if answer[0]:
        raise DeviceError(f"kernel {name} was not loaded: {answer[0].name}")
    return answer[1:]


def _file_of(kernel: Any, types: list[tuple]) -> Path | None:
    """Where a kernel's machine code lies on disk; None for a kernel from elsewhere, whose sources are not known."""
    function = kernel.py_func
    if not Path(function.__code__.co_filename).resolve().is_relative_to(PACKAGE / "cuda"):
        return None
    from numba.cuda.dispatcher import CUDACache

    text = "\n".join([hash_of_sources(), _versions(), _fingerprint(function), repr(types), repr(kernel.targetoptions)])
    folder = Path(CUDACache(function).cache_path)
    return folder / f"{function.__name__}-{hashlib.sha256(text.encode()).hexdigest()[:24]}.cubin"


def _fingerprint(function: Any) -> str:
    """What tells apart kernels that one piece of source makes: the numbers and functions that it closes over."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    inner = [_fingerprint(getattr(cell, "py_func", cell)) if callable(cell) and hasattr(
        getattr(cell, "py_func", cell), "__closure__") else repr(cell) for cell in cells]  # fmt: skip
    return f"{function.__module__}.{function.__qualname__}({', '.join(inner)})"


@functools.cache
def hash_of_sources() -> str:
    """Of names and contents of all files that a kernel is compiled from."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in SOURCES for path in PACKAGE.glob(pattern)):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


@functools.cache
def _versions() -> str:
    """The architecture, and of the compilers."""
    from importlib.metadata import PackageNotFoundError, version

    import numba
    from numba.cuda.api import get_current_device

    def of(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "-"

    packages = ("numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink", "nvidia-cuda-nvcc")
    compilers = [numba.__version__, np.__version__, *map(of, packages)]
    return f"{' '.join(compilers)} {get_current_device().compute_capability}"


def _write(file: Path, content: bytes) -> None:
    """Whole, or not at all: a full disk or a folder that is read-only costs compiling again, and no more."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(handle, "wb") as unfinished:
            unfinished.write(content)
        os.replace(name, file)
    except OSError:
        return
