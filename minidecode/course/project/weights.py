"""The judge's side of elsewhere.py: the models' numbers, the products with them, and how many there were."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .elsewhere import MOVING, ONE_BY_ONE, PRODUCTS

MOST_NUMBERS = 32 * 2**20  # of anything that is made of weights
MOST_WORK = 2**34  # multiply-adds of one product
MOST_PLACES = 20_000  # of an index by arrays
MOST_STEPS = 200  # that lead from a weight to what is asked for


class WeightError(ValueError):
    """What an engine asks of its weights is nothing that weights are for."""


class Weights:
    """Arrays by number. multiply_adds and fetched count since `take_counts` was last called."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self.multiply_adds = self.fetched = 0

    def add(self, arrays: list[np.ndarray]) -> int:
        """The number of the first of them."""
        self.arrays += arrays
        return len(self.arrays) - len(arrays)

    def take_counts(self) -> tuple[int, int]:
        """(multiply-adds, numbers fetched) since the last call."""
        counts, self.multiply_adds, self.fetched = (self.multiply_adds, self.fetched), 0, 0
        return counts

    def numbers(self, given: Any) -> np.ndarray:
        """What an engine takes out of them."""
        numbers = np.ascontiguousarray(self._evaluate(given))
        self.fetched += numbers.size
        return numbers

    def product(self, name: str, args: list[Any], named: dict[str, Any]) -> Any:
        if name not in PRODUCTS or not set(named) <= {"axes", "optimize"}:
            raise WeightError(f"{name} with {', '.join(named) or 'these'} is no product that is counted")
        operands = self._evaluate(args)
        work, size = work_of_product(name, operands, named.get("axes", 2))
        if work > MOST_WORK or size > MOST_NUMBERS:
            raise WeightError(f"a product of {work:,} multiply-adds")
        self.multiply_adds += work
        if name == "tensordot":
            return np.tensordot(*operands[:2], operands[2] if len(operands) > 2 else named.get("axes", 2))
        return getattr(np, name)(*operands, **named)

    def _evaluate(self, given: Any, steps: int = 0) -> Any:
        if isinstance(given, dict) and set(given) == {"tree"}:
            return self._evaluate_tree(given["tree"], steps)
        if isinstance(given, list | tuple):
            return type(given)(self._evaluate(part, steps) for part in given)
        return given

    def _evaluate_tree(self, tree: Any, steps: int) -> Any:
        if steps > MOST_STEPS or not isinstance(tree, list):
            raise WeightError("an array of the model through too many steps")
        kind, *about = tree
        if kind == "view":
            number, offset, shape, strides, dtype = about
            return np.ndarray(tuple(shape), _checked_dtype(dtype), self.arrays[number], offset, tuple(strides))
        if kind == "part":
            return self._evaluate_tree(about[0], steps + 1)[tuple(map(_index_from_judge, about[1]))]
        if kind == "type":
            return self._evaluate_tree(about[0], steps + 1).astype(_checked_dtype(about[1]), copy=False)
        if kind == "item":
            return self._evaluate_tree(about[0], steps + 1)[about[1]]
        name, args, named = about
        if kind != "call" or name not in MOVING + ONE_BY_ONE:
            raise WeightError(f"{name} of an array of the model")
        values = self._evaluate(args, steps + 1)
        if name in ONE_BY_ONE and math.prod(np.broadcast_shapes(*map(np.shape, values))) > MOST_NUMBERS:
            raise WeightError("an array that is far larger than the model's")
        if name == "take" and np.size(values[1]) > MOST_PLACES:
            raise WeightError("an index of too many places")
        return getattr(np, name)(*values, **named)


def _checked_dtype(dtype: str) -> np.dtype:
    plain = np.dtype(dtype)
    if plain.kind not in "biuf":
        raise WeightError(f"an array of {plain}")
    return plain


def _index_from_judge(item: Any) -> Any:
    if isinstance(item, dict):
        return slice(*item["slice"]) if "slice" in item else None if item["new"] else Ellipsis
    if np.size(item) > MOST_PLACES:
        raise WeightError("an index of too many places")
    return item


def work_of_product(name: str, operands: list[Any], axes: Any = 2) -> tuple[int, int]:
    """(multiply-adds of a product, numbers in its result), before it is made."""
    if name == "einsum":
        letters, *arrays = operands
        inputs, arrow, output = letters.replace(" ", "").partition("->")
        sizes: dict[Any, int] = {}
        for names, array in zip(inputs.split(","), arrays, strict=True):
            for letter, n in zip(_axes_of_letters(names, np.ndim(array)), np.shape(array), strict=True):
                sizes[letter] = max(n, sizes.get(letter, 1))
        kept = [k for k in sizes if not isinstance(k, str) or k in output or (not arrow and inputs.count(k) == 1)]
        return math.prod(sizes.values()), math.prod(sizes[k] for k in kept)
    one, two = operands[0], operands[1]
    if name == "tensordot":
        axes = operands[2] if len(operands) > 2 else axes
        mine = range(np.ndim(one) - axes, np.ndim(one)) if isinstance(axes, int) else np.atleast_1d(axes[0]).tolist()
        summed = math.prod(np.shape(one)[axis] for axis in mine)
    elif name == "vdot":
        summed = np.size(one)
    else:
        summed = np.shape(one)[-1] if np.ndim(one) else 1
    if name == "matmul":
        batch = math.prod(np.broadcast_shapes(np.shape(one)[:-2], np.shape(two)[:-2]))
        rows = np.shape(one)[-2] if np.ndim(one) > 1 else 1
        columns = np.shape(two)[-1] if np.ndim(two) > 1 else 1
        return batch * rows * summed * columns, batch * rows * columns
    size = np.size(one) * np.size(two) // max(1, summed) ** 2
    return size * summed, size


def _axes_of_letters(letters: str, ndim: int) -> list[Any]:
    """What einsum calls the axes of an array; those of an ellipsis by their numbers from the right."""
    before, dots, after = letters.partition("...")
    return [*before, *(range(ndim - len(before) - len(after), 0, -1) if dots else ()), *after]
