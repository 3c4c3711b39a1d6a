"""Where a kernel is launched: on the GPU, or in the emulator where there is none; and what was launched."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from .device import device_kind
from .errors import OptionError

LAUNCHES: ContextVar[Counter[str] | None] = ContextVar("launches", default=None)
TRACED: ContextVar[bool] = ContextVar("traced", default=False)
SEEN: ContextVar[dict[tuple[Any, tuple], None] | None] = ContextVar("seen", default=None)
PRODUCT = "product of the library"
PATIENCE_OF_A_JUDGE = 3.0  # seconds: its inputs are small
EMULATED: ContextVar[bool] = ContextVar("emulated", default=False)


def launch(kernel: Any, grid: int | tuple, block: int | tuple, *arrays: Any) -> None:
    """Runs kernel[grid, block](*arrays). Without a GPU, or within `InEmulator`, NumPy arrays go to the emulator.

    The emulator stops at the first mistake; within `traced_launches` data races are mistakes too. On a GPU, NumPy
    arrays are copied there and back, which is for tests: what is timed lives on the device. An empty grid launches
    nothing.
    """
    if np.prod(grid) == 0:
        return
    launches, on_gpu = LAUNCHES.get(), device_kind() == "gpu" and not EMULATED.get()
    if launches is not None:
        launches[f"{kernel.py_func.__name__} ({'gpu' if on_gpu else 'emulator'})"] += 1
    if on_gpu:
        note_kernel(kernel, arrays)  # the emulator does so itself, for launches that do not come by here too
        kernel[grid, block](*arrays)
        return
    if not all(isinstance(a, np.ndarray | np.generic | int | float) for a in arrays):
        raise OptionError("these arrays live on a GPU, and Numba finds none here: pass NumPy arrays to the emulator")
    from .emulator import emulate

    patience = PATIENCE_OF_A_JUDGE if TRACED.get() else 10.0
    emulate(kernel, trace=TRACED.get(), strict=True, patience=patience)[grid, block](*arrays)


def products(stacks: Iterable[tuple[Any, Any, Any]]) -> None:
    """out = a @ b for each (a, b, out), stacks of matrices: the products around a kernel, which are the library's.

    cuBLAS has a call for stacks of different shapes (its grouped batched product), and NumPy, stack by stack, stands
    for that one. CuPy has no name for it: there each stack is a call, and is counted as one.
    Sums are in the type of `out`: float16 by float16 into float32 is what tensor cores do.
    """
    calls = 0
    for a, b, out in stacks:
        if isinstance(out, np.ndarray):
            np.matmul(a, b, out=out, dtype=out.dtype)
        elif out.ndim == 3:
            strided_batched(a, b, out)
        else:
            np.matmul(a, b, out=out)
        calls = 1 if isinstance(out, np.ndarray) else calls + 1
    if (launches := LAUNCHES.get()) is not None and calls:
        launches[f"{PRODUCT} ({'numpy' if isinstance(out, np.ndarray) else 'cupy'})"] += calls


def strided_batched(a: Any, b: Any, out: Any) -> None:
    """out[i] = a[i] @ b[i] of CuPy's arrays in one call of cuBLAS, from float32 or float16 to a float32 `out`.

    CuPy's own product (14.2) copies a transposed stack first, and widens float16, which keeps it off tensor cores.
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


def note_kernel(kernel: Any, arguments: tuple) -> bool:
    """Notes a launch for `seen_kernels`; whether anybody wants to know, and so whether mistakes must be told."""
    seen = SEEN.get()
    if seen is not None and hasattr(kernel, "py_func"):
        from numba import typeof

        seen.setdefault((kernel, tuple(map(typeof, arguments))), None)
    return seen is not None


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
def seen_kernels():
    """Within it, every kernel that is launched is noted, with Numba's types of its arguments; see `check`."""
    seen: dict[tuple[Any, tuple], None] = {}
    token = SEEN.set(seen)
    try:
        yield seen
    finally:
        SEEN.reset(token)


@contextmanager
def traced_launches():
    """Within it, emulated launches look for data races, which right answers may hide; slower."""
    token = TRACED.set(True)
    try:
        yield
    finally:
        TRACED.reset(token)


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
