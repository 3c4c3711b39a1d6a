"""Arrays on the device that is not there: what CuPy's arrays allow, on numbers that lie in NumPy's memory.

Host code that runs on these runs on CuPy's, as far as an array can tell: shapes are known, numbers are not, an array
of the host's beside one of the device's is refused, and every look at numbers can be counted. Kernels get the numbers
themselves, in the emulator (launch.py). What CuPy has no function for is refused, too.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..within import set_within

LOOKS: ContextVar[list[int] | None] = ContextVar("looks", default=None)
MADE: ContextVar[list[int] | None] = ContextVar("made", default=None)
MEMORY: ContextVar[Memory | None] = ContextVar("memory", default=None)
POISON: ContextVar[bool] = ContextVar("poison", default=False)
TAPE: ContextVar[Tape | None] = ContextVar("tape", default=None)

# Of NumPy's functions those that CuPy 14 has under the same names; a test holds each against CuPy where it is there.
ON_DEVICE = {
    np.all, np.any, np.arange, np.argmax, np.argsort, np.array, np.asarray, np.ascontiguousarray, np.broadcast_to,
    np.clip, np.concatenate, np.copyto, np.cumsum, np.diff, np.empty, np.empty_like, np.expand_dims, np.full,
    np.full_like, np.matmul, np.max, np.min, np.moveaxis, np.ones, np.ones_like, np.put_along_axis, np.repeat,
    np.reshape, np.sort, np.split, np.stack, np.sum, np.swapaxes, np.take, np.take_along_axis, np.tile, np.transpose,
    np.where, np.zeros, np.zeros_like,
}  # fmt: skip
BY_NUMBERS = {np.argwhere, np.flatnonzero, np.nonzero, np.unique}  # these wait: their shapes depend on numbers
NOT_CUPYS = {"initial", "where", "mode"}  # arguments of these functions and methods that CuPy's do not have
MOST_JOINED = 8  # arrays that CuPy concatenates without a table of pointers, which no graph can hold


class EmulatorArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of the emulated device. `get` (a copy for the host), `int`, `bool` and `item` look at numbers."""

    def __init__(self, there: np.ndarray, base: EmulatorArray | None = None):
        self.there, self.base = there, base

    def __repr__(self) -> str:
        return f"<EmulatorArray {self.dtype}{self.shape}>"

    def __len__(self) -> int:
        return len(self.there)

    def __getitem__(self, key: Any) -> EmulatorArray:
        if isinstance(key, EmulatorArray) and key.dtype == bool:
            host_view(key)  # how many there are
        index = _index_on_device(key)
        return _run_by_numpy(lambda array: np.asarray(array[index]), (self,), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, list | tuple | range):
            raise TypeError(f"CuPy assigns arrays and numbers, no {type(value).__name__}: make it an array first")
        index = _index_on_device(key)
        _run_by_numpy(lambda array, new: array.__setitem__(index, new), (self, value), {})

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any) -> Any:
        if method != "__call__":
            raise TypeError(f"CuPy's arrays refuse np.{ufunc.__name__}.{method}: use an index, a function or an op")
        if ufunc is np.matmul and not all(data_on_device(out).flags.c_contiguous for out in named.get("out", ())):
            raise TypeError("CuPy writes no matmul into an `out` whose rows do not lie side by side: copy it there")
        return _run_by_numpy(ufunc, inputs, named)

    def __array_function__(self, function: Callable, types: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        if function in BY_NUMBERS:
            host_view(self)
        elif function not in ON_DEVICE:
            raise TypeError(f"{function.__name__} is none of the functions that run on a device")
        _refuse_arguments(function.__name__, kwargs)
        if function is np.where:
            _refuse_other_kinds(args[1:])
        if function in (np.concatenate, np.stack) and TAPE.get() is not None and len(args[0]) > MOST_JOINED:
            raise TypeError(
                f"{len(args[0])} arrays are joined while a step is captured: CuPy brings a table of more than"
                f" {MOST_JOINED} over, which no graph can hold"
            )
        if function in (np.sort, np.argsort) and TAPE.get() is not None:
            raise TypeError(
                f"np.{function.__name__} while a step is captured: CuPy's waits for the device (in versions before its"
                " pull request 9497), which no graph can: take the op top_candidates"
            )
        if function in (np.array, np.asarray) and not isinstance(args[0], EmulatorArray):
            return copy_to_emulator(np.array(*args, **kwargs))
        result = _run_by_numpy(function, args, kwargs)
        if function in (np.empty, np.empty_like) and POISON.get():
            result.there[...] = np.frombuffer(b"\xff" * result.itemsize, result.dtype)[0]
        return result

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("an array of the device is not brought over unasked: use .get()")

    def get(self) -> np.ndarray:
        """A copy of the numbers, for the host."""
        host_view(self)
        return self.there.copy()

    @property
    def data(self) -> Any:
        """CuPy's way to say where it lies: `data.ptr`."""
        return _Pointer(self.there.ctypes.data)


class _Pointer:
    def __init__(self, ptr: int):
        self.ptr = ptr


def _attribute_of_data(name: str) -> property:
    return property(lambda self: getattr(self.there, name))


def _make_method_of_data(name: str) -> Callable:
    def call(self, *args, **kwargs):
        _refuse_arguments(name, kwargs)
        return _run_by_numpy(getattr(np.ndarray, name), (self, *args), kwargs)

    return call


def _refuse_arguments(name: str, kwargs: dict[str, Any]) -> None:
    if unknown := NOT_CUPYS & set(kwargs):
        raise TypeError(f"CuPy's {name} has no argument {unknown.pop()}")


def _refuse_other_kinds(choices: tuple) -> None:
    """Raises TypeError where CuPy's `where` would: a NumPy scalar and an array must be of one kind."""
    kinds = {choice.dtype.kind for choice in choices if isinstance(choice, EmulatorArray | np.generic)}
    if len(kinds) > 1 and any(isinstance(choice, np.generic) for choice in choices):
        raise TypeError(f"CuPy's where takes no NumPy scalar beside an array of another kind ({', '.join(kinds)})")


def _make_counted_look(name: str) -> Callable:
    return lambda self: getattr(host_view(self), name)()


for _name in ("dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides"):
    setattr(EmulatorArray, _name, _attribute_of_data(_name))
for _name in ("all", "any", "argmax", "astype", "clip", "copy", "cumsum", "max", "min", "ravel", "repeat", "reshape",
              "sum", "swapaxes", "transpose", "view"):  # fmt: skip
    setattr(EmulatorArray, _name, _make_method_of_data(_name))
for _name in ("__bool__", "__int__", "__index__", "__float__", "item", "tolist"):
    setattr(EmulatorArray, _name, _make_counted_look(_name))
EmulatorArray.T = property(lambda self: self.transpose())


def copy_to_emulator(array: np.ndarray) -> EmulatorArray:
    """A copy of an array of the host's, on the device. Raises TypeError while a step is captured."""
    if TAPE.get() is not None:
        raise TypeError("an array of the host's is brought over while a step is captured: only that one would be there")
    return _note_new_array(np.array(array))


def host_view(array: EmulatorArray) -> np.ndarray:
    """The numbers of an array, for the host; `counted_looks` notes it. Raises TypeError while a step is captured."""
    if TAPE.get() is not None:
        raise TypeError("numbers are looked at while a step is captured: a device could not know them yet")
    if (looks := LOOKS.get()) is not None:
        looks.append(array.nbytes)
    return array.there


def counted_looks() -> AbstractContextManager[list[int]]:
    """Within it, the bytes of each look at numbers of the device are noted."""
    return set_within(LOOKS, [])


def counted_arrays() -> AbstractContextManager[list[int]]:
    """Within it, the bytes of each array that is made on the device are noted; a view is none."""
    return set_within(MADE, [])


def poisoned_arrays() -> AbstractContextManager[bool]:
    """Within it, arrays that are made without numbers hold bytes of ones, NaN as floats."""
    return set_within(POISON, True)


class OutOfMemoryError(MemoryError):
    """What CuPy raises where a GPU's memory ends, or a pool's limit is reached: its name, its base, its words."""

    def __init__(self, size: int, held: int, most: int):
        super().__init__(
            f"Out of memory allocating {size:,} bytes (allocated so far: {held:,} bytes, limit set to: {most:,} bytes)."
        )


class Memory:
    """A limit on the bytes of arrays that are made from now on. Each counts until its last view is gone."""

    def __init__(self, most: int | None = None):
        self.most = most  # None: no limit yet
        self.held = self.peak = 0
        self._arrays: dict[int, tuple[weakref.ref, int]] = {}  # by the id of what owns the numbers

    @property
    def free(self) -> int | None:
        """Bytes that arrays may still take."""
        return None if self.most is None else max(0, self.most - self.held)

    def reserve_bytes(self, array: np.ndarray) -> None:
        """Counts a new array. Raises OutOfMemoryError where it does not fit."""
        while isinstance(array.base, np.ndarray):
            array = array.base
        key, size = id(array), array.nbytes
        if key in self._arrays:
            return
        if self.most is not None and self.held + size > self.most:
            gc.collect()  # as CuPy's pool does
        if self.most is not None and self.held + size > self.most:
            raise OutOfMemoryError(size, self.held, self.most)
        self._arrays[key] = weakref.ref(array, lambda _: self._free(key)), size
        self.held += size
        self.peak = max(self.peak, self.held)

    def _free(self, key: int) -> None:
        self.held -= self._arrays.pop(key)[1]


def limited_memory(most: int | None = None) -> AbstractContextManager[Memory]:
    """Within it, the arrays of the device are counted, and there is no room for more than `most` bytes of them."""
    return set_within(MEMORY, Memory(most))


def _note_new_array(array: np.ndarray) -> EmulatorArray:
    """An array that is no view, noted if somebody counts."""
    if (memory := MEMORY.get()) is not None:
        memory.reserve_bytes(array)
    if (made := MADE.get()) is not None:
        made.append(array.nbytes)
    return EmulatorArray(array)


class Tape:
    """What was done on the device, to be done again on the same arrays: what a CUDA graph is on a GPU."""

    bytes = 0  # what it uses is not counted

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def launch(self) -> None:
        """Does all of it again."""
        for call in self.calls:
            call()


def recorded_tape() -> AbstractContextManager[Tape]:
    """Within it, all that is done on the device is noted on a tape (and done). Looks at numbers are errors."""
    return set_within(TAPE, Tape())


def run_and_record(call: Callable[[], None]) -> None:
    """Does it, and notes it on the tape if there is one."""
    call()
    if (tape := TAPE.get()) is not None:
        tape.calls.append(call)


def data_on_device(given: Any) -> Any:
    """What a kernel, or NumPy in the device's place, gets to see. Raises TypeError on an array that lies here."""
    if isinstance(given, EmulatorArray):
        return given.there
    if isinstance(given, tuple | list):
        return type(given)(map(data_on_device, given))
    if isinstance(given, dict):
        return {name: data_on_device(value) for name, value in given.items()}
    if isinstance(given, np.ndarray):
        raise TypeError(f"an array of the host's, {given.dtype}{given.shape}, among the device's: move it there first")
    return given


def _index_on_device(key: Any) -> Any:
    """Indices of the host's may be used as they are, as CuPy brings them over; not while a step is captured."""
    if isinstance(key, tuple):
        return tuple(map(_index_on_device, key))
    return (
        (copy_to_emulator(key) if TAPE.get() is not None else key)
        if isinstance(key, np.ndarray | list)
        else data_on_device(key)
    )


def _run_by_numpy(function: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What NumPy makes of it, as arrays of the device."""
    plain, named = data_on_device(args), data_on_device(kwargs)
    result = _as_arrays(function(*plain, **named))
    if (tape := TAPE.get()) is not None:
        tape.calls.append(lambda: _overwrite_results(result, function(*plain, **named)))
    return _wrap_result(result, _device_arrays_in((*args, *kwargs.values())))


def _device_arrays_in(given: Any) -> list[EmulatorArray]:
    """The device's arrays among the arguments, also in tuples and lists, as `out` is one."""
    parts = given if isinstance(given, tuple | list) else ()
    return [given] if isinstance(given, EmulatorArray) else [a for part in parts for a in _device_arrays_in(part)]


def _overwrite_results(result: Any, again: Any) -> None:
    """New numbers where those of the last time are; a view, and what was written in place, are there already."""
    for old, new in zip(result, again, strict=True) if isinstance(result, tuple | list) else [(result, again)]:
        if isinstance(old, np.ndarray) and not np.may_share_memory(old, new):
            old[...] = new


def _as_arrays(result: Any) -> Any:
    """Single numbers are arrays, too, on a device."""
    if isinstance(result, tuple | list):
        return type(result)(map(_as_arrays, result))
    return np.asarray(result) if isinstance(result, np.generic) else result


def _wrap_result(result: Any, given: list[EmulatorArray]) -> Any:
    if isinstance(result, tuple | list):
        return type(result)(_wrap_result(part, given) for part in result)
    if not isinstance(result, np.ndarray):
        return result
    bases = [a for a in given if np.may_share_memory(a.there, result)]
    for base in bases:
        if base.there is result:
            return base
    if not bases:
        return _note_new_array(result)
    return EmulatorArray(result, bases[0] if bases[0].base is None else bases[0].base)
