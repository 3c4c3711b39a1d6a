"""The calls of a step as boxes, in their order: each names its op, its weight, its shapes, bytes and operations."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from ...catalog import Cost
from ...ops import Weight
from ...runtime.receipt import Receipt

WORDS = {  # of weights, where the code's name is short
    "qkv": "queries, keys, values", "q": "queries", "kv": "keys, values", "cross_kv": "keys and values of the source",
    "out": "heads together", "lm_head": "logits",
}  # fmt: skip
SHAPES = 3  # that a box shows


class Call(NamedTuple):
    op: str
    shape: str
    weight: int | None  # the id of the Weight that it multiplies with


def shape_and_weight_of_call(given: dict[str, Any]) -> tuple[str, int | None]:
    """(the shapes that tell how large a call is, the id of its weight). Values are as large as their keys."""
    weight = next((value for value in given.values() if isinstance(value, Weight)), None)
    arrays = [(name, value.shape) for name, value in given.items() if getattr(value, "ndim", 0)]
    large = [(name, shape) for name, shape in arrays[1:] if len(shape) > 1 and "v" not in name.split("_")]
    said = [f"{name} {_shape_in_words(shape)}" for name, shape in (arrays[:1] + large)[:SHAPES]]
    if weight is None:
        return ", ".join(said), None
    return f"{said[0]} @ {_shape_in_words((arrays[0][1][-1], weight.outputs))}", id(weight)


def _shape_in_words(shape: Sequence[int]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def names_of_weights(weights: Any) -> dict[int, str]:
    """What the weights of a model are for, by their ids."""
    names: dict[int, str] = {}
    for weight, name in _named_weights(weights, ""):
        names.setdefault(id(weight), WORDS.get(name, name.replace("_", " ")))
    return names


def _named_weights(part: Any, name: str) -> Iterator[tuple[Weight, str]]:
    if isinstance(part, Weight):
        yield part, name
    elif isinstance(part, tuple):
        for each in part:
            yield from _named_weights(each, name)
    elif is_dataclass(part):
        for field in fields(part):
            yield from _named_weights(getattr(part, field.name), field.name)


def count_layers(weights: Any) -> frozenset[int]:
    """How many layers an encoder or a decoder has."""
    parts = [getattr(weights, field.name) for field in fields(weights)]
    inside = [count_layers(part) for part in parts if is_dataclass(part) and not isinstance(part, Weight)]
    return frozenset(len(part) for part in parts if isinstance(part, tuple)).union(*inside)


def costs_of_calls(calls: Sequence[Call], receipt: Receipt) -> list[Cost]:
    """What the receipt says of each call."""
    costs = {name: iter(count.costs) for name, count in receipt.ops.items()}
    return [next(costs[call.op]) for call in calls]


def sum_costs_by_op(calls: Sequence[Call], costs: Sequence[Cost], ops: Sequence[str]) -> list[list[int]]:
    """[place in ops, calls, bytes, operations] of each op that was called."""
    rows = []
    for place, name in enumerate(ops):
        costs_of_op = [cost for call, cost in zip(calls, costs, strict=True) if call.op == name]
        if costs_of_op:
            rows.append([place, *_sum_costs(costs_of_op)])
    return rows


def _sum_costs(costs: Sequence[Cost]) -> list[int]:
    return [len(costs), sum(int(c.bytes) for c in costs), sum(int(c.operations) for c in costs)]


def boxes_of_parts(
    calls: Sequence[Call], costs: Sequence[Cost], ops: Sequence[str], names: dict[int, str], layers: frozenset[int]
) -> list[dict[str, Any]]:
    """[{times, boxes}], in order: equal layers are one part.

    A box is [place in ops, name of the weight, shape, calls, bytes, operations]. times: how many layers its sums are
    of; 0 where the boxes are no layers.
    """
    keys = tuple((call.op, names.get(call.weight or 0, "")) for call in calls)
    parts = []
    for first, period, times in find_repeats(keys, layers):
        boxes = []
        for k in range(first, first + period):
            repeated = costs[k : first + period * max(times, 1) : period]
            boxes.append([ops.index(calls[k].op), keys[k][1], calls[k].shape, *_sum_costs(repeated)])
        parts.append({"times": times, "boxes": boxes})
    return parts


@functools.lru_cache(64)
def find_repeats(keys: tuple[Any, ...], layers: frozenset[int], begin: int = 0) -> list[tuple[int, int, int]]:
    """[(first, period, times)] of all keys; times is 0 of those that repeat nothing.

    It takes the longest run of as many equal layers as there are, or of all but the last one, which a prefill shortens.
    Then it does the same with what stands before and behind.
    """
    best, n = (0, 0, 0), len(keys)
    for period in range(2, n // 2 + 1):
        run = 0
        for i in range(n - period):
            run = run + 1 if keys[i] == keys[i + period] else 0
            times = run // period + 1
            if {times, times + 1} & layers and times > 1 and times * period > best[1] * best[2]:
                best = (i - run + 1, period, times)
    first, period, times = best
    if not times:
        return [(begin, n, 0)] if n else []
    last = first + period * times
    return [
        *find_repeats(keys[:first], layers, begin),
        (begin + first, period, times),
        *find_repeats(keys[last:], layers, begin + last),
    ]
