"""How a launch hands its arguments to a kernel: packed in bytes, as compiled code reads them.

What the driver gets of an array is what Numba compiled the kernel for: seven or more numbers of eight bytes, which are
two empty pointers, the size, the bytes of a number, the address, the shape and the strides. Of a scalar it gets the
number itself. In the layouts "C" and "F" compiled code never reads the strides: the layout is part of the type.

The packed form of an array is kept, so an array that recurs is packed once. What is kept holds no array alive, and is
used for that very array alone: an id recurs. The emulated device packs, too, and its kernels read what was packed
(`pack_and_unpack`): a wrong address, shape or stride is wrong there as well.
"""

from __future__ import annotations

import itertools
import math
import struct
import sys
import weakref
from typing import Any

import numpy as np

from ..errors import EmulationError, OptionError

SCALARS = {  # how Numba types a scalar, and how the driver takes it, in eight bytes
    bool: ("boolean", "?7x"), int: ("int64", "q"), float: ("float64", "d"), np.bool_: ("boolean", "?7x"),
    np.float32: ("float32", "f4x"), np.float64: ("float64", "d"), np.int32: ("int32", "i4x"), np.int64: ("int64", "q"),
}  # fmt: skip
BEFORE_SHAPE = 5  # numbers
MOST_SHAPES = 100_000  # whose numbers are kept
MANY_FORMS = 4096  # kept ones, before those of arrays that are gone are thrown away

# By the array's id: (a weak reference to it, the number of its type, its packed form, its shape).
KEPT: dict[int, tuple[weakref.ref, int, bytes, tuple]] = {}
TYPES: dict[int, tuple] = {}  # a type by its number
_NUMBERS: dict[tuple, int] = {}  # and the number of a type
_COUNT = itertools.count()
_DESCRIBED: dict[tuple, tuple[int, bytes, bytes]] = {}  # of arrays with dtype, shape and strides alike
_ADDRESS = struct.Struct("=q").pack
_limit = [MANY_FORMS]
_ACCEPTED: set[tuple] = set()  # a kernel and the types' numbers, which its signatures allow


def packed_form(argument: Any) -> tuple[int, bytes]:
    """(the number of its type, its packed form), of a scalar, or of an array that has none yet."""
    of_scalar = PACKED_SCALARS.get(type(argument))
    if of_scalar is not None:
        return of_scalar[0], of_scalar[1](argument)
    try:
        address, is_kept = argument.data.ptr, True
    except AttributeError:
        if not isinstance(argument, np.ndarray):
            name = type(argument).__name__
            raise OptionError(f"a kernel takes no {name} by itself: make it an int, a float or an array") from None
        address, is_kept = argument.ctypes.data, False  # its memory may be assigned
    shape = argument.shape
    described = _DESCRIBED.get((argument.dtype, shape, argument.strides)) or _pack_layout(argument)
    packed = b"".join((described[1], _ADDRESS(address), described[2]))
    if is_kept:
        if len(KEPT) >= _limit[0]:
            _forget_dead_arrays()
        KEPT[id(argument)] = weakref.ref(argument), described[0], packed, shape
    return described[0], packed


def look_up_packed_form(argument: Any) -> tuple[int, bytes] | None:
    """What packed_form has said of this array, if its shape is still the same; `launch_on_gpu` has this inlined."""
    kept = KEPT.get(id(argument))
    return kept[1:3] if kept is not None and kept[0]() is argument and kept[3] == argument.shape else None


def _forget_dead_arrays() -> None:
    """Drops the packed forms of arrays that are gone. Another thread may lose one that it needs, and packs again."""
    for key, kept in list(KEPT.items()):
        if kept[0]() is None:
            KEPT.pop(key, None)
    _limit[0] = max(MANY_FORMS, 2 * len(KEPT))


def _pack_layout(array: Any) -> tuple[int, bytes, bytes]:
    """(type's number, bytes before the address, bytes behind it): the same for equal type, shape and strides."""
    shape, strides, dtype = array.shape, array.strides, array.dtype
    if len(_DESCRIBED) > MOST_SHAPES:
        _DESCRIBED.clear()
    before = struct.pack("=4q", 0, 0, math.prod(shape), dtype.itemsize)
    described = number_of_type(type_of_argument(array)), before, struct.pack(f"={2 * len(shape)}q", *shape, *strides)
    _DESCRIBED[dtype, shape, strides] = described
    return described


def number_of_type(kind: tuple) -> int:
    """The number of a type, the same each time."""
    number = _NUMBERS.get(kind)
    if number is None:
        number = _NUMBERS.setdefault(kind, next(_COUNT))
        TYPES[number] = kind
    return number


def type_of_argument(argument: Any) -> tuple:
    """(dtype, ndim, layout) of an array: C where rows follow each other without gaps, F the reverse, else A.

    Of a scalar, (the name of its type,).
    """
    if type(argument) in SCALARS:
        return (SCALARS[type(argument)][0],)
    flags = argument.flags
    layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
    return argument.dtype.name, len(argument.shape), layout


PACKED_SCALARS = {
    kind: (number_of_type((name,)), struct.Struct("=" + form).pack) for kind, (name, form) in SCALARS.items()
}


def packed_length_of_type(kind: tuple) -> int:
    """How many numbers of eight bytes a packed argument of this type has."""
    return BEFORE_SHAPE + 2 * kind[1] if len(kind) == 3 else 1


def pack_and_unpack(kernel: Any, arguments: tuple, any_layout: bool = False) -> tuple:
    """NumPy arrays and scalars as compiled code would see them: packed, and read from what was packed.

    Arrays of the emulated device are views of the memory that they lie in. Raises EmulationError where the numbers
    contradict each other, or a signature of the kernel asks for rows without gaps and there are some; any_layout: those
    may lie anyhow, as arrays of the host's may.
    """
    forms = [look_up_packed_form(a) or packed_form(a) for a in arguments]
    numbers, packed = tuple([number for number, _ in forms]), b"".join([form for _, form in forms])
    if not any_layout and (kernel, *numbers) not in _ACCEPTED:
        _check_layouts(kernel, [TYPES[number] for number in numbers])
        _ACCEPTED.add((kernel, *numbers))
    place, seen = 0, []
    for number, given in zip(numbers, arguments, strict=True):
        kind = TYPES[number]
        if len(kind) == 1:
            form = next(form for name, form in SCALARS.values() if name == kind[0])
            seen.append(type(given)(*struct.unpack_from("=" + form, packed, place)))
        else:
            here = getattr(given, "there", given)
            seen.append(
                _view_from_packed_numbers(
                    kernel, kind, struct.unpack_from(f"={packed_length_of_type(kind)}q", packed, place), here
                )
            )
        place += 8 * packed_length_of_type(kind)
    return tuple(seen)


def _view_from_packed_numbers(kernel: Any, kind: tuple, numbers: tuple[int, ...], array: np.ndarray) -> np.ndarray:
    """The array that compiled code would see, in the memory of `array`."""
    (name, ndim, layout), dtype = kind, np.dtype(kind[0])
    _, _, size, itemsize, address = numbers[:BEFORE_SHAPE]
    shape, packed = numbers[BEFORE_SHAPE : BEFORE_SHAPE + ndim], numbers[BEFORE_SHAPE + ndim :]
    strides = packed if layout == "A" else _strides_without_gaps(shape, dtype.itemsize, layout)
    matter = [n > 1 and size > 0 for n in shape]
    if size != math.prod(shape) or itemsize != dtype.itemsize or any(
        a != b for a, b, matters in zip(packed, strides, matter, strict=True) if matters
    ):  # fmt: skip
        raise EmulationError(
            f"{kernel.py_func.__name__}: an array of {size} numbers, shape {shape} and strides {packed} was packed as"
            f" {name} in layout {layout}, whose strides are {strides}"
        )
    memory, start = _memory_and_address_of(array)
    try:
        view = np.ndarray(shape, dtype, memory, address - start if size else 0, strides)
    except (ValueError, TypeError):
        raise EmulationError(
            f"{kernel.py_func.__name__}: shape {shape} with strides {strides} reaches beyond the array's memory, from"
            f" byte {address - start} of {memory.nbytes} on"
        ) from None
    if not array.flags.writeable:
        view.flags.writeable = False
    return view


def _strides_without_gaps(shape: tuple[int, ...], itemsize: int, layout: str) -> tuple[int, ...]:
    steps = list(itertools.accumulate(shape[:0:-1] if layout == "C" else shape[:-1], lambda a, b: a * b, initial=1))
    return tuple(itemsize * step for step in (steps[::-1] if layout == "C" else steps))[: len(shape)]


def _memory_and_address_of(array: np.ndarray) -> tuple[np.ndarray, int]:
    """(what owns the array's bytes, as an array without gaps; its address)."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    if not array.flags.c_contiguous:
        array = array.T if array.flags.f_contiguous else np.asarray(_Bytes(array))
    return array, array.ctypes.data


class _Bytes:
    """All bytes from an array's first number to its last."""

    def __init__(self, array: np.ndarray):
        reach = [stride * (n - 1) for stride, n in zip(array.strides, array.shape, strict=True)] if array.size else []
        first = array.ctypes.data + sum(min(0, r) for r in reach)
        self.array = array  # lives as long
        self.__array_interface__ = {
            "shape": (sum(map(abs, reach)) + array.itemsize if array.size else 0,), "typestr": "|u1", "version": 3,
            "data": (first, not array.flags.writeable),
        }  # fmt: skip


# ---- signatures ------------------------------------------------------------------------------------------------------


def _check_layouts(kernel: Any, types: list[tuple]) -> None:
    """Raises EmulationError where signatures allow these arrays, but for gaps between their rows."""
    alike = [s for s in signatures_of(kernel) if len(s) == len(types) and all(map(_is_of_signature_type, types, s))]
    if not alike or any(all(map(_is_of_signature_layout, types, signature)) for signature in alike):
        return
    names = kernel.py_func.__code__.co_varnames
    wrong = next(
        k for k, (kind, s) in enumerate(zip(types, alike[0], strict=True)) if not _is_of_signature_layout(kind, s)
    )
    raise EmulationError(
        f"{kernel.py_func.__name__}: {names[wrong]} has gaps between its numbers, or another order, and the kernel's"
        f" signatures ask for {alike[0][wrong]}: make it contiguous first"
    )


def signatures_of(kernel: Any) -> list[tuple]:
    """What SIGNATURES of the kernel's module, or of the one that has made it, say about it."""
    homes = [kernel.py_func.__globals__]
    if kernel.py_func.__module__.startswith("minidecode.cuda."):
        homes += [vars(module) for name, module in list(sys.modules.items()) if name.startswith("minidecode.cuda.")]
    return next((home["SIGNATURES"][kernel] for home in homes if kernel in home.get("SIGNATURES", {})), [])


def _is_of_signature_type(kind: tuple, numba_type: Any) -> bool:
    """Whether an argument is of this type, in whatever layout; a scalar may be of another width."""
    if len(kind) == 1:
        return not hasattr(numba_type, "layout")
    dtype = str(getattr(numba_type, "dtype", "")).replace("boolean", "bool")
    return dtype == kind[0] and numba_type.ndim == kind[1]


def _is_of_signature_layout(kind: tuple, numba_type: Any) -> bool:
    return len(kind) == 1 or numba_type.layout in ("A", kind[2])
