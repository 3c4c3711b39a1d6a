"""Which kernels were launched, on the GPU or in the emulator, with Numba's types of their arguments."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from ..within import set_within

SEEN: ContextVar[dict[tuple[Any, tuple], None] | None] = ContextVar("seen", default=None)
DRY: ContextVar[bool] = ContextVar("dry", default=False)


def note_kernel(kernel: Any, arguments: tuple) -> bool:
    """Notes a launch for `seen_kernels`; whether anybody wants to know, and so whether mistakes must be told."""
    seen = SEEN.get()
    if seen is not None and hasattr(kernel, "py_func"):
        seen.setdefault((kernel, tuple(map(_numba_type_of, arguments))), None)
    return seen is not None


def _numba_type_of(argument: Any) -> Any:
    """Numba's type; of an array on a GPU that of one on the host, which Numba does not know by itself."""
    from numba import typeof, types
    from numba.np.numpy_support import from_dtype

    if not hasattr(argument, "__cuda_array_interface__"):
        return typeof(argument)
    flags = argument.flags
    layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
    return types.Array(from_dtype(argument.dtype), argument.ndim, layout)


def seen_kernels() -> AbstractContextManager[dict[tuple[Any, tuple], None]]:
    """Within it, every kernel that is launched is noted, with Numba's types of its arguments; see `check`."""
    return set_within(SEEN, {})


def dry_launches() -> AbstractContextManager[bool]:
    """Within it, emulated launches are held to the limits of grids and blocks and noted; no kernel runs."""
    return set_within(DRY, True)
