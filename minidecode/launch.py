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
    """
    calls = 0
    for a, b, out in stacks:
        np.matmul(a, b, out=out)
        calls = 1 if isinstance(out, np.ndarray) else calls + 1
    if (launches := LAUNCHES.get()) is not None and calls:
        launches[f"{PRODUCT} ({'numpy' if isinstance(out, np.ndarray) else 'cupy'})"] += calls


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
