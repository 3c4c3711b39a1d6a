"""What a student's code multiplies with weights, and what it holds: counted, never timed."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

STEPS_INTO = 12  # objects within objects that are looked into


class Counted(np.ndarray):
    """A weight that counts the multiply-adds of its products, whichever function of NumPy makes them.

    Parts of it and numbers made of it one by one (a cast, a scaled copy) count as well. A product is a plain array.
    """

    multiply_adds = 0  # by all of them, since `count` was last called

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any) -> Any:
        if "out" in named:
            named["out"] = tuple(map(plain, named["out"]))
        result = getattr(ufunc, method)(*map(plain, inputs), **named)
        if ufunc is np.matmul:
            Counted.multiply_adds += result.size * np.shape(inputs[0])[-1]
            return result
        is_one_by_one = method == "__call__" and isinstance(result, np.ndarray) and result.shape == self.shape
        return result.view(Counted) if is_one_by_one and result.ndim > 1 else result

    def __array_function__(self, function: Any, types: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        result = function(*_plain_in(args), **_plain_in(kwargs))
        Counted.multiply_adds += _multiply_adds(function, args, result)
        if function in MOVING:
            return _counted_in(result)
        return result


MOVING = {  # the same numbers elsewhere
    np.reshape, np.transpose, np.swapaxes, np.moveaxis, np.split, np.array_split, np.hsplit, np.vsplit, np.concatenate,
    np.hstack, np.vstack, np.stack, np.take, np.copy, np.ravel, np.expand_dims, np.squeeze, np.where, np.repeat,
}  # fmt: skip


def plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Counted) else value


def count() -> int:
    """Multiply-adds with weights since the last call."""
    found, Counted.multiply_adds = Counted.multiply_adds, 0
    return found


def _plain_in(given: Any) -> Any:
    if isinstance(given, tuple | list):
        return type(given)(_plain_in(part) for part in given)
    if isinstance(given, dict):
        return {name: _plain_in(part) for name, part in given.items()}
    return plain(given)


def _counted_in(result: Any) -> Any:
    if isinstance(result, list | tuple):
        return type(result)(_counted_in(part) for part in result)
    return result.view(Counted) if isinstance(result, np.ndarray) else result


def _multiply_adds(function: Any, args: tuple, result: Any) -> int:
    if function in (np.dot, np.inner):
        return np.size(result) * np.shape(args[0])[-1]
    if function is np.vdot:
        return np.size(args[0])
    if function is np.tensordot:
        return math.isqrt(np.size(args[0]) * np.size(args[1]) * np.size(result))
    if function is np.einsum and isinstance(args[0], str):
        named = zip(args[0].partition("->")[0].replace(" ", "").split(","), args[1:], strict=True)
        sizes: dict[Any, int] = {}
        for letters, array in named:
            for letter, n in zip(_axes(letters, np.ndim(array)), np.shape(array), strict=False):
                sizes[letter] = max(n, sizes.get(letter, 1))
        return math.prod(sizes.values())
    return 0


def _axes(letters: str, ndim: int) -> list[Any]:
    """What einsum calls the axes of an array; those of an ellipsis by their numbers from the right."""
    before, dots, after = letters.partition("...")
    return [*before, *(range(ndim - len(before) - len(after), 0, -1) if dots else ()), *after]


def with_counted_weights(model: Any, steps: int = STEPS_INTO) -> Any:
    """The same object, its matrices exchanged for counted ones: in lists, dicts, tuples and objects' attributes."""
    if isinstance(model, np.ndarray):
        return model.view(Counted) if model.ndim > 1 and type(model) is np.ndarray else model
    if steps == 0 or isinstance(model, str | bytes):
        return model
    if isinstance(model, tuple):
        parts = [with_counted_weights(part, steps - 1) for part in model]
        return type(model)(*parts) if hasattr(model, "_fields") else tuple(parts)
    if isinstance(model, list):
        model[:] = [with_counted_weights(part, steps - 1) for part in model]
    elif isinstance(model, dict):
        model.update({name: with_counted_weights(part, steps - 1) for name, part in model.items()})
    else:
        for name, part in _attributes(model).items():
            object.__setattr__(model, name, with_counted_weights(part, steps - 1))
    return model


def _attributes(value: Any) -> dict[str, Any]:
    """Those of an object, also where its class has slots for them; none of a class."""
    if isinstance(value, type):
        return {}
    slots = [s for c in type(value).__mro__ for s in _names(vars(c).get("__slots__", ())) if hasattr(value, s)]
    return {name: getattr(value, name) for name in slots} | dict(getattr(value, "__dict__", {}))


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def held_bytes(value: Any, beside: Any = None) -> int:
    """Bytes of the arrays within an object, each memory once; without those of `beside`, such as the weights."""
    other = {id(_owner(array)) for array in _arrays(beside)}
    owners = {id(owner): owner for owner in map(_owner, _arrays(value))}
    return sum(owner.nbytes for key, owner in owners.items() if key not in other)


def why_too_many(value: Any) -> str:
    """What often lies behind too many bytes in a cache: float64, or parts of larger arrays. Empty if it is neither."""
    arrays = list(_arrays(value))
    if any(array.dtype == np.float64 for array in arrays):
        return "Some of it is float64: np.sqrt(2) makes float64 of float32 arrays, and math.sqrt(2) does not."
    owners = {id(owner): owner for owner in map(_owner, arrays)}
    if sum(array.nbytes for array in arrays) < sum(owner.nbytes for owner in owners.values()):
        return "Some arrays are parts of larger ones, which stay in memory as long as the part does: copy the parts."
    return ""


def _owner(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _arrays(value: Any, steps: int = STEPS_INTO) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
        if value.dtype == object and steps:
            yield from _arrays(value.tolist(), steps - 1)
    elif not steps or isinstance(value, str | bytes | range | int | float):
        return
    else:
        parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, Collection) else ()
        for part in (*parts, *_attributes(value).values()):
            yield from _arrays(part, steps - 1)
