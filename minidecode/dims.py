"""The dimension key: the last part of a name spells its shape, one capital letter per axis (Shazeer's notation).

`q_RHK` is an array of three axes: rows, query heads, width of a head. `unify` holds arrays to their names: in tests
every op's (`with_checked_shapes`), elsewhere only those of functions that a user put in the place of an op.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

KEY = {
    "B": "sentences in the batch",
    "W": "beam width",
    "R": "rows of this call, one per token computed (prefill: all prompt tokens; step: B*W); with query rows"
    " (ProphetNet, UniLM) one more for each token that is predicted (step: 2*B*W)",
    "S": "stacked layers",
    "N": "input length (prompt, or encoder output)",
    "T": "generated positions",
    "M": "cache positions attended to (N, T or N+T)",
    "D": "model width",
    "H": "query heads",
    "G": "key/value heads",
    "K": "width of a query and key head",
    "U": "width of a value head",
    "F": "feed-forward width",
    "V": "vocabulary",
    "C": "candidates",
    "P": "buckets of a position bias",
    "L": "distances from query to key",
    "Z": "numbers of a latent",
    "X": "several of these side by side (the name or the docstring says which)",
}

_SUFFIX = re.compile(rf"_([{''.join(KEY)}]+)$")


def letters(name: str) -> str | None:
    """The dimension letters at the end of `name`, or None: letters("q_RHK") == "RHK", letters("scale") is None."""
    match = _SUFFIX.search(name)
    return match.group(1) if match else None


def unify(named: list[tuple[str, object]], sizes: dict[str, int] | None = None) -> dict[str, int]:
    """Binds every letter to one size across `named` arrays, or raises ValueError naming both places.

    X stands for several axes side by side and is never bound. Dataclasses are looked into, field by field.
    """
    sizes = dict(sizes or {})
    seen_in: dict[str, str] = {}
    for name, array in arrays_in(named):
        axes = letters(name)
        if axes is None:
            continue
        shape = array.shape
        if len(shape) != len(axes):
            raise ValueError(f"{name} should have {len(axes)} axes ({axes}) and has shape {shape}")
        for letter, size in zip(axes, shape, strict=True):
            if letter != "X" and sizes.setdefault(letter, size) != size:
                where = seen_in.get(letter, "an earlier argument")
                raise ValueError(
                    f"{name}: {letter} ({KEY[letter]}) is {size} here and {sizes[letter]} in {where}; shape {shape}"
                )
            seen_in.setdefault(letter, name)
    return sizes


def arrays_in(named: list[tuple[str, Any]]) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays among these, and those in the fields of dataclasses, by their names."""
    for name, value in named:
        if dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                yield from arrays_in([(field.name, getattr(value, field.name))])
        elif hasattr(value, "shape") and value is not None:
            yield name, value


def with_checked_shapes(function: Callable, returns: str | tuple[str, ...] = ()) -> Callable:
    """`function`, but every call checks its array arguments, and its results if `returns` names them."""
    signature = inspect.signature(function)
    returns = (returns,) if isinstance(returns, str) else tuple(returns)

    @functools.wraps(function)
    def check_and_call(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        sizes = unify(list(bound.arguments.items()))
        result = function(*args, **kwargs)
        results = result if isinstance(result, tuple) else (result,)
        if returns:
            unify(list(zip(returns, results, strict=True)), sizes)
        return result

    return check_and_call
