"""Where arrays are and kernels run: on the host, on a GPU, or on an emulated device."""

from __future__ import annotations

import weakref
from typing import Any, Literal

import numpy as np

from ..errors import OptionError, did_you_mean, pip_install
from .low_precision import each_array

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
    """`name`, or what "auto" comes to: "cuda" where a GPU and CuPy are, else "cpu".

    Raises OptionError on another name, and on "cuda" where it cannot run.
    """
    if name not in DEVICES:
        near = "; did you mean cuda?" if name == "gpu" else did_you_mean(str(name), DEVICES)
        raise OptionError(f"device={name!r} is not one of {', '.join(DEVICES)}{near}")
    if name in ("cpu", "emulator"):
        return name
    missing = _why_no_cuda()
    if name == "cuda" and missing:
        raise OptionError(f"device=cuda: {missing}; device=emulator runs the same code without, on toy shapes")
    return "cpu" if missing else "cuda"


def _why_no_cuda() -> str | None:
    if device_kind() != "gpu":
        return "Numba finds no GPU here"
    try:
        import cupy  # noqa: F401
    except ImportError:
        return f"CuPy is not installed ({pip_install('cupy', 'cu13')})"
    return None


def put(array: np.ndarray, device: str) -> Any:
    """A host array, on the device: CuPy's, or one of the emulated device; on the CPU it stays as it is."""
    if device == "cuda":
        import cupy

        return cupy.asarray(array)
    if device == "emulator":
        from ..emulator.device_array import brought

        return brought(array)
    return array


def moved_to(device: str, weights: Any) -> Any:
    """The same tree with its arrays on a device; one that stands in several places goes there once."""
    there: dict[int, Any] = {}

    def move(array: np.ndarray) -> Any:
        if id(array) not in there:
            there[id(array)] = put(array, device)
        return there[id(array)]

    return each_array(weights, move)


def fetch(array: Any) -> np.ndarray:
    """The numbers of an array, with the host: a wait and a copy, if it lies on a device."""
    return array if isinstance(array, np.ndarray) else array.get()


_ON_HOST: dict[int, tuple[weakref.ref, np.ndarray]] = {}  # by the id of an array of a device: its numbers


def fetched_once(array: Any) -> np.ndarray:
    """The numbers of an array that never changes, such as offsets: a device is asked for them once, and waits once."""
    if isinstance(array, np.ndarray):
        return array
    key = id(array)
    if key not in _ON_HOST:
        _ON_HOST[key] = weakref.ref(array, lambda _: _ON_HOST.pop(key, None)), fetch(array)
    return _ON_HOST[key][1]


def is_array(thing: Any) -> bool:
    """Whether it is an array, on the host or on a device."""
    return hasattr(thing, "__array_function__")


def address_of(array: Any) -> int:
    """Where its first number lies, in the host's memory or a device's."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def array_like(like: Any, shape: int | tuple[int, ...], dtype: Any, fill: Any) -> Any:
    """An array that lies where `like` does, filled with a number or with numbers on the host."""
    host = np.empty(shape, dtype)
    host[...] = fill
    return np.asarray(host, like=like)
