"""How outputs of a student's code are compared with what is due, and the first difference in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .verdict import Miss

POISON = -7777  # what outputs of integers hold before they are written; those of floats hold NaN
WITH_A_FRACTION = 16  # times as hardly as an integer one that is none agrees by chance


def as_tuple(result: Any) -> tuple:
    return result if isinstance(result, tuple) else (result,)


def are_same(got: Sequence, want: Sequence, bound: Any = 0.0) -> bool:
    """Whether outputs are equal up to the bound: one for all, or a tuple of one for each."""
    if find_fault_of_kind((), got, want):
        return False
    bounds = _bound_for_each(want, bound)
    return all(_are_near(np.asarray(g), np.asarray(w), b).all() for g, w, b in zip(got, want, bounds, strict=True))


def count_integers_of_same_information(outputs: Sequence) -> int:
    """How many integers tell as much as these."""
    integers = 0
    for array in map(np.asarray, outputs):
        finite = array[np.isfinite(array)]
        integers += array.size + (WITH_A_FRACTION - 1) * int(np.count_nonzero(finite % 1))
    return integers


def _bound_for_each(want: Sequence, bound: Any) -> tuple:
    """A bound for each output."""
    return bound if isinstance(bound, tuple) else (bound,) * len(want)


def _are_near(got: np.ndarray, want: np.ndarray, bound: Any) -> np.ndarray:
    if got.dtype.kind in "biu" and want.dtype.kind in "biu":
        return got == want
    with np.errstate(invalid="ignore"):
        got, want = got.astype(np.float64), want.astype(np.float64)
        return (got == want) | (np.abs(got - want) <= bound) | (np.isnan(got) & np.isnan(want))


def find_fault_of_kind(names: Sequence[str], got: Sequence, want: Sequence, in_place: int = 0) -> Miss | None:
    """A mistake in the number, types or shapes of the outputs; else None. in_place: how many are not returned."""
    if len(got) != len(want):
        due = len(want) - in_place
        return Miss(f"{due} result{'s are' if due != 1 else ' is'} due, and {len(got) - in_place} came back.")
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        name = names[k] if k < len(names) else "the result"
        if g is None:
            return Miss(f"{name} is None where an array of shape {np.shape(w)} is due: nothing was returned.")
        if not isinstance(g, np.ndarray | np.generic | int | float | bool):
            return Miss(f"{name} is {str(g)[:40]!r} where an array of shape {np.shape(w)} is due.")
        if np.shape(g) != np.shape(w):
            return Miss(f"{name} has the shape {np.shape(g)} where {np.shape(w)} is due.")
        kinds = np.asarray(g).dtype.kind, np.asarray(w).dtype.kind
        if kinds[0] not in "biuf" or any((kinds[0] == kind) != (kinds[1] == kind) for kind in "fb"):
            why = ": as an index, integers are places, and booleans a mask" if set(kinds) <= set("biu") else ""
            due = {"f": "floating-point numbers are", "b": "booleans are"}.get(kinds[1], "integers are")
            return Miss(f"{name} holds {np.asarray(g).dtype} where {due} due{why}.", "types")
    return None


def first_difference(names: Sequence[str], got: Sequence, want: Sequence, bound: Any = 0.0) -> str:
    """The first place where two outputs differ, in words."""
    for name, g, w, b in zip(names, got, want, _bound_for_each(want, bound), strict=False):
        g, w = np.asarray(g), np.asarray(w)
        wrong = ~_are_near(g, w, b)
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            is_unwritten = np.isnan(float(g[place])) or g[place] == POISON
            mine = "was never written" if is_unwritten else f"is {g[place]}"
            where = f"{name}{list(place)}" if place else name
            how_many = f" ({int(wrong.sum())} of {wrong.size} places are wrong)" if wrong.size > 1 else ""
            return f"{where} {mine}; right is {float(w[place]):.9g}{how_many}."
    return "The output is wrong."


def make_unwritten_array(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """An output before any write; what stays so is reported."""
    return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else POISON, dtype)
