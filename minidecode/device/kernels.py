"""A kernel's launch on a GPU: machine code that is kept by the types of its arguments, and arguments packed by hand.

Numba's own launch looks at each argument anew: it wraps arrays, finds the compiled version by their types, and makes a
configuration. With CuPy's arrays that takes the host 60 to 100 us, while a small kernel runs for 2 us. Here a launch is
one look-up, one copy of packed arguments (packing.py) and one call of the driver.

Machine code lies in the folder of compiled code, so that a machine compiles each kernel once. Its name holds a hash of
the package's sources, of the types, the architecture and the versions. A process whose sources have changed since it
imported them has no file: it would keep old code under a new name.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DeviceError, counted
from ..within import set_within
from .arrays import check_current_gpu
from .packing import KEPT, PACKED_SCALARS, packed_form, packed_length_of_type, type_of_argument
from .sources import PACKAGE, hash_of_sources, have_sources_changed

SOURCES = ("cuda/**/*.py", "reference/**/*.py", "ops.py", "device/low_precision.py", "device/weight_blocks.py")

Launch = Callable[[int | tuple, int | tuple, int, bytes], None]  # grid, block, stream, packed arguments

_LOADED: dict[tuple, Launch] = {}  # by the kernel and its arguments' types
_LOCK = threading.Lock()
NO_SCALAR = (-1, None)
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
        return f"{self.seconds:.3f} s loaded {counted(self.kernels, 'kernel')}{compiled}; later calls have them"


LOADING: ContextVar[Loading | None] = ContextVar("loading", default=None)


def noted_loading() -> AbstractContextManager[Loading]:
    """Within it, kernels that are launched for the first time are noted."""
    return set_within(LOADING, Loading())


def load_kernel(kernel: Any, types: list[tuple]) -> Launch:
    """Loads a kernel's machine code onto the GPU, for one tuple of argument types; returns what launches it."""
    from cuda.bindings import driver

    (cubin, entry), name = machine_code(kernel, types), kernel.py_func.__name__
    (module,) = _check_driver(driver.cuModuleLoadData(cubin), name)
    (function,) = _check_driver(driver.cuModuleGetFunction(module, entry.encode()), name)
    return make_launcher(driver.cuLaunchKernel, function, name, 8 * sum(map(packed_length_of_type, types)))


def make_launcher(call: Callable[..., tuple], function: Any, name: str, size: int) -> Launch:
    """What launches this function of the driver with `size` bytes of packed arguments.

    Several threads may launch at the same time. The driver has copied the arguments when it returns.
    """
    idle: list[tuple[memoryview, int]] = []

    def launch(grid: int | tuple, block: int | tuple, stream: int, packed: bytes) -> None:
        try:
            room, table = idle.pop()
        except IndexError:  # none, or another thread was faster
            room, table = argument_buffer(size)
        room[:] = packed
        if type(grid) is int and type(block) is int:
            failed = call(function, grid, 1, 1, block, 1, 1, 0, stream, table, 0)[0]
        else:
            sizes = (*pad_to_three_dimensions(grid), *pad_to_three_dimensions(block))
            failed = call(function, *sizes, 0, stream, table, 0)[0]
        idle.append((room, table))
        if failed:
            raise DeviceError(f"kernel {name} was not launched: {failed.name}")

    return launch


def argument_buffer(size: int) -> tuple[memoryview, int]:
    """(a buffer for packed arguments, the address of a table of where each eight bytes of it lie)."""
    buffer = ctypes.create_string_buffer(size)
    first = ctypes.addressof(buffer)
    table = (ctypes.c_void_p * (size // 8))(*range(first, first + size, 8))
    buffer.table = table  # lives as long
    return memoryview(buffer).cast("B"), ctypes.addressof(table)


def launch_on_gpu(kernel: Any, grid: int | tuple, block: int | tuple, arguments: tuple, stream: int = 0) -> None:
    """kernel[grid, block, stream](*arguments) for CuPy's arrays and scalars. Raises DeviceError if it cannot run."""
    try:
        _THREAD.ready  # noqa: B018
    except AttributeError:
        _make_context_current()
    key, forms, look_up = [kernel], [], KEPT.get
    for argument in arguments:
        kept = look_up(id(argument))
        if kept is not None and kept[0]() is argument and kept[3] == argument.shape:
            key.append(kept[1])
            forms.append(kept[2])
        else:
            number, pack = PACKED_SCALARS.get(type(argument), NO_SCALAR)
            number, packed = (number, pack(argument)) if pack else packed_form(argument)
            key.append(number)
            forms.append(packed)
    launch = _LOADED.get(tuple(key)) or _load_and_keep(kernel, arguments, tuple(key))
    launch(grid, block, stream, b"".join(forms))


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
        file = _file_of_machine_code(kernel, types)
        if file is not None and (kept := _read_machine_code(file)) is not None:
            return kept
        from numba.cuda.dispatcher import _Kernel

        started = time.perf_counter()
        built = _Kernel(kernel.py_func, numba_types(types), **kernel.targetoptions)
        cubin = built._codelibrary.get_cubin()
        cubin = getattr(cubin, "code", cubin)
        if (loading := LOADING.get()) is not None:
            loading.compiled += 1
            loading.compile_seconds += time.perf_counter() - started
        if file is not None:
            write_whole(file, f"{built.entry_name} {hashlib.sha256(cubin).hexdigest()}\n".encode() + cubin)
        return cubin, built.entry_name


def _read_machine_code(file: Path) -> tuple[bytes, str] | None:
    """What `machine_code` has written; None without a file, or where it was cut off or changed: it is compiled anew."""
    try:
        head, _, cubin = file.read_bytes().partition(b"\n")
    except OSError:
        return None
    name, _, digest = head.decode(errors="replace").partition(" ")
    return (cubin, name) if digest == hashlib.sha256(cubin).hexdigest() else None


def _load_and_keep(kernel: Any, arguments: tuple, key: tuple) -> Launch:
    started, loading = time.perf_counter(), LOADING.get()
    launch = _LOADED.setdefault(key, load_kernel(kernel, [type_of_argument(argument) for argument in arguments]))
    if loading is not None:
        loading.kernels += 1
        loading.seconds += time.perf_counter() - started
    return launch


def pad_to_three_dimensions(size: int | tuple) -> tuple[int, int, int]:
    """A grid or a block in three dimensions."""
    if not isinstance(size, tuple):
        return int(size), 1, 1
    return (*map(int, size), *(1,) * (3 - len(size)))  # type: ignore[return-value]


def _make_context_current() -> None:
    """Makes the context of CuPy and Numba this thread's. Raises DeviceError on another GPU than the first."""
    import cupy

    check_current_gpu()
    cupy.cuda.runtime.free(0)
    _THREAD.ready = True


def _check_driver(answer: tuple, name: str) -> tuple:
    """The driver's answer without its error code. Raises DeviceError if that is an error."""
    if answer[0]:
        raise DeviceError(f"kernel {name} was not loaded: {answer[0].name}")
    return answer[1:]


def _file_of_machine_code(kernel: Any, types: list[tuple]) -> Path | None:
    """The file of a kernel's machine code; None where its sources are not known, and without a folder.

    None, too, where sources were written since cuda/ was imported: this process may have loaded some of them before and
    some after.
    """
    function = kernel.py_func
    if not Path(function.__code__.co_filename).resolve().is_relative_to(PACKAGE / "cuda"):
        return None
    if have_sources_changed(SOURCES):
        return None
    text = "\n".join(
        [
            hash_of_sources(SOURCES),
            versions_of_compilers(),
            _fingerprint_of_closure(function),
            repr(types),
            repr(kernel.targetoptions),
        ]
    )
    folder = folder_of_compiled(function)
    return folder and folder / f"{function.__name__}-{hashlib.sha256(text.encode()).hexdigest()[:24]}.cubin"


def folder_of_compiled(function: Any) -> Path | None:
    """The folder where Numba keeps the compiled code of this function's file; None if no folder is writable."""
    from numba.cuda.dispatcher import CUDACache

    try:
        return Path(CUDACache(function).cache_path)
    except RuntimeError:  # no locator available
        return None


def _fingerprint_of_closure(function: Any) -> str:
    """What tells apart kernels that one piece of source makes: the numbers and functions that it closes over."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    inner = [_fingerprint_of_closure(getattr(cell, "py_func", cell)) if callable(cell) and hasattr(
        getattr(cell, "py_func", cell), "__closure__") else repr(cell) for cell in cells]  # fmt: skip
    return f"{function.__module__}.{function.__qualname__}({', '.join(inner)})"


@functools.cache
def versions_of_compilers() -> str:
    """The versions of the compilers, and the GPU's compute capability."""
    from importlib.metadata import PackageNotFoundError, version

    import numba
    from numba.cuda.api import get_current_device

    def version_or_dash(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "-"

    packages = ("numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink", "nvidia-cuda-nvcc")
    compilers = [numba.__version__, np.__version__, *map(version_or_dash, packages)]
    return f"{' '.join(compilers)} {get_current_device().compute_capability}"


def write_whole(file: Path, content: bytes) -> None:
    """Writes the file whole, or not at all: a full disk or a read-only folder costs compiling again, and no more."""
    unfinished = file.with_name(f"{file.name}.{os.getpid()}.{threading.get_ident()}")  # others may read it: no mkstemp
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(content)
        unfinished.replace(file)
    except OSError:
        return
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
