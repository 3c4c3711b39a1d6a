"""Where a kernel is launched: on the GPU, or in the emulator where there is none; and what was launched."""

from __future__ import annotations

import dataclasses
import inspect
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..errors import OptionError
from .device import device_kind, fetch
from .seen_kernels import note_kernel

LAUNCHES: ContextVar[Counter[str] | None] = ContextVar("launches", default=None)
TRACED: ContextVar[bool] = ContextVar("traced", default=False)
PRODUCT = "product of the library"
PATIENCE_OF_A_JUDGE = 3.0  # seconds: its inputs are small
EMULATED: ContextVar[bool] = ContextVar("emulated", default=False)
STREAM: ContextVar[Any] = ContextVar("stream", default=0)  # Numba's, where kernels of the GPU go


def launch(kernel: Any, grid: int | tuple, block: int | tuple, *arrays: Any) -> None:
    """Runs kernel[grid, block](*arrays): arrays of CuPy's on the GPU, those of the emulated device in the emulator.

    NumPy arrays go to the emulator without a GPU, or within `InEmulator`; else they are copied to the GPU and back,
    which is for tests: what is timed lives there. The emulator stops at the first mistake; within `traced_launches`
    data races are mistakes too. An empty grid launches nothing.
    """
    if np.prod(grid) == 0:
        return
    is_emulated = any(lies_emulated(a) for a in arrays)
    launches = LAUNCHES.get()
    on_gpu = not is_emulated and not EMULATED.get() and device_kind() == "gpu"
    if launches is not None:
        launches[f"{kernel.py_func.__name__} ({'gpu' if on_gpu else 'emulator'})"] += 1
    if on_gpu:
        note_kernel(kernel, arrays)  # the emulator does so itself, for launches that do not come by here too
        arrays = tuple(_for_numba(a) for a in arrays)
        kernel[grid, block, STREAM.get()](*arrays)
        return
    run = _emulated(kernel, grid, block)
    if is_emulated:
        from ..emulator.device_array import do, there

        plain = there(arrays)
        do(lambda: run(*plain))
        return
    if not all(isinstance(a, np.ndarray | np.generic | int | float) for a in arrays):
        raise OptionError("these arrays live on a GPU, and Numba finds none here: pass NumPy arrays to the emulator")
    run(*arrays)


def _for_numba(array: Any) -> Any:
    """CuPy's array as Numba's, without the wait for its stream that Numba would add; all work is on one stream."""
    if not hasattr(array, "__cuda_array_interface__"):
        return array
    from numba import cuda

    return cuda.as_cuda_array(array, sync=False)


def _emulated(kernel: Any, grid: int | tuple, block: int | tuple) -> Callable[..., None]:
    from ..emulator import emulate

    patience = PATIENCE_OF_A_JUDGE if TRACED.get() else 10.0
    schedules = 5  # forward, backward and two random ones too, for each of the judge's many inputs
    return emulate(kernel, trace=TRACED.get(), strict=True, patience=patience, schedules=schedules)[grid, block]


def lies_emulated(array: Any) -> bool:
    """Whether an array lies on the emulated device."""
    return type(array).__module__ == "minidecode.emulator.device_array"


def products(stacks: Iterable[tuple[Any, Any, Any]]) -> None:
    """out = a @ b for each (a, b, out), stacks of matrices: the products around a kernel, which are the library's.

    cuBLAS has a call for stacks of different shapes (its grouped batched product), and NumPy, stack by stack, stands
    for that one. CuPy has no name for it: there each stack is a call, and is counted as one.
    Sums are in the type of `out`: float16 by float16 into float32 is what tensor cores do.
    """
    calls = 0
    for a, b, out in stacks:
        by_numpy = isinstance(out, np.ndarray) or lies_emulated(out)
        if lies_emulated(out):
            from ..emulator.device_array import product_of_the_library

            product_of_the_library(a, b, out)
        elif by_numpy:
            np.matmul(a, b, out=out, dtype=out.dtype)
        elif out.ndim == 3:
            strided_batched(a, b, out)
        else:
            np.matmul(a, b, out=out)
        calls = 1 if by_numpy else calls + 1
    if (launches := LAUNCHES.get()) is not None and calls:
        launches[f"{PRODUCT} ({'numpy' if by_numpy else 'cupy'})"] += calls


def strided_batched(a: Any, b: Any, out: Any) -> None:
    """out[i] = a[i] @ b[i] of CuPy's arrays in one call of cuBLAS, from float32 or float16 to a float32 `out`.

    CuPy's own product (14.2) copies a transposed stack first, and casts float16, which keeps it off tensor cores.
    cuBLAS reads either order by its strides, if in each matrix rows or columns are contiguous. It counts columns first:
    a b as it is stored here is b^T a^T to it. Not yet run on a GPU: a test holds the call to cuBLAS's manual.
    """
    from cupy.cuda import device, runtime
    from cupy_backends.cuda.libs import cublas

    def layout(stack: Any) -> tuple[int, int, int, int, int]:
        """(transposed, address, type, numbers from row to row, numbers from matrix to matrix)."""
        per_matrix, per_row, per_column = (stride // stack.itemsize for stride in stack.strides)
        transposed = int(per_column != 1)
        between = max(per_column, stack.shape[1]) if transposed else max(per_row, stack.shape[2])
        kind = runtime.CUDA_R_16F if stack.dtype == np.float16 else runtime.CUDA_R_32F
        return transposed, stack.data.ptr, kind, between, per_matrix

    (a_transposed, *a_numbers), (b_transposed, *b_numbers), (_, *out_numbers) = layout(a), layout(b), layout(out)
    stacks, rows, columns = out.shape
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    cublas.gemmStridedBatchedEx(
        device.get_cublas_handle(), b_transposed, a_transposed, columns, rows, a.shape[2], one.ctypes.data, *b_numbers,
        *a_numbers, zero.ctypes.data, *out_numbers, stacks, cublas.CUBLAS_COMPUTE_32F, cublas.CUBLAS_GEMM_DEFAULT,
    )  # fmt: skip


@contextmanager
def counted_launches():
    """Within it, every launch is counted by the kernel's name and place: no function can vouch for itself."""
    counts: Counter[str] = Counter()
    token = LAUNCHES.set(counts)
    try:
        yield counts
    finally:
        LAUNCHES.reset(token)


@contextmanager
def traced_launches():
    """Within it, emulated launches look for data races, which right answers may hide; slower."""
    token = TRACED.set(True)
    try:
        yield
    finally:
        TRACED.reset(token)


class OnHost:
    """A host function among ops of a device: on copies of its arrays, and what it changed goes back.

    That is what FastSeq's section 4.2 begins with: n-grams banned by a loop on the CPU, between one transfer there and
    one back. (Weights do not change: they are brought over, each time, and not taken back.)
    """

    def __init__(self, function: Callable):
        self.stands_for = getattr(function, "stands_for", function)
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.name != "workspace"]  # a device has its own workspace
        self.__signature__ = signature.replace(parameters=own)
        self._function = function

    def __call__(self, *args, **kwargs):
        copies: list[tuple[Any, np.ndarray]] = []  # (array of the device, its copy)
        result = self._function(*_here(args, copies), **_here(kwargs, copies))
        for there, here in copies:
            there[...] = np.asarray(here, like=there)
        return _back(result, copies)


def _here(given: Any, copies: list[tuple[Any, np.ndarray]]) -> Any:
    """Arrays of a device as copies with the host, each once; `copies` gets those that may be changed."""
    if isinstance(given, tuple | list):
        return type(given)(_here(part, copies) for part in given)
    if isinstance(given, dict):
        return {name: _here(part, copies) for name, part in given.items()}
    if dataclasses.is_dataclass(given):  # weights, norms
        parts = {f.name: _here(getattr(given, f.name), []) for f in dataclasses.fields(given)}
        return dataclasses.replace(given, **parts)
    if not hasattr(given, "nbytes") or isinstance(given, np.ndarray | np.generic):
        return given
    for there, here in copies:
        if there is given:
            return here
    copies.append((given, fetch(given)))
    return copies[-1][1]


def _back(result: Any, copies: list[tuple[Any, np.ndarray]]) -> Any:
    """What a host function returned, on the device; a copy that it was handed is what it is a copy of."""
    if isinstance(result, tuple):
        return tuple(_back(part, copies) for part in result)
    for there, here in copies:
        if here is result:
            return there
    return np.asarray(result, like=copies[0][0])


class InEmulator:
    """A function whose kernels run in the emulator even where there is a GPU."""

    def __init__(self, function: Callable):
        self.stands_for = function
        self.__signature__ = inspect.signature(function)

    def __call__(self, *args, **kwargs):
        token = EMULATED.set(True)
        try:
            return self.stands_for(*args, **kwargs)
        finally:
            EMULATED.reset(token)
