"""What one decode step of a decoder-only model holds, moves and computes, from sizes alone: nothing is run.

Costs of ops are the catalog's. The functions in FIGURES give the numbers of the chapters' figures of costs, as
`{what: {who: number}}`. The site's pages compute the same in JavaScript (docs/static/live/costs.js).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..catalog import CATALOG, Cost, sum_of_costs
from ..files.published import published_config
from ..models import FAMILIES
from ..models.config import Config
from ..ops import Weight
from . import el_costs
from .machines import Machine

OWN, ONCE = "each beam its own", "prompt kept once"  # plans cache=preallocated and cache=split
HELD, MOVED, OPERATIONS = "bytes held", "bytes moved in a step", "operations of a step"
REORDERED, SECONDS = "bytes copied if all beams change places", "seconds of a step, at the least"
SWAPPED, COPYING = "bytes copied if two beams change places", "seconds to copy for all beams, at the least"
MODELS = ("gpt2", "gpt2-medium", "SmolLM2-135M", "Llama-3.2-1B", "starcoder")


@dataclass(frozen=True)
class Step:
    """A model of S layers, and a step of W beams for each of B sentences: N prompt positions, T generated ones.

    H query heads and G key/value heads are K wide. `ups` is 2 where the feed-forward layer is gated, and 1 otherwise.
    """

    S: int
    D: int
    H: int
    G: int
    K: int
    F: int
    V: int
    ups: int = 1
    B: int = 1
    W: int = 4
    N: int = 1024
    T: int = 64
    itemsize: int = 2  # bytes of a number, in weights, caches and rows alike

    @property
    def R(self) -> int:
        return self.B * self.W

    @property
    def dtype(self) -> type:
        return {2: np.float16, 4: np.float32}[self.itemsize]


def make_step_of_config(config: Config, **request: int) -> Step:
    """A step of the model of a config.json; request: sizes of the step, or others than the model has."""
    layers, heads = config.stacks["decoder"]
    ups = 2 if config.is_gated else 1
    return replace(
        Step(layers, config.width, heads.H, heads.G, heads.K, config.feed_forward, config.vocab_size, ups), **request
    )


def config_of_published_model(name: str) -> Config:
    """The config of a published model."""
    fields = published_config(name)
    return FAMILIES[fields["model_type"]].config.from_json(fields)


def make_step_of_published_model(name: str, **request: int) -> Step:
    """A step of a published model."""
    return make_step_of_config(config_of_published_model(name), **request)


def matrices_of_step(s: Step) -> list[tuple[int, int]]:
    """(inputs, outputs) of the products of a step, the last one being that with the vocabulary."""
    layer = [(s.D, (s.H + 2 * s.G) * s.K), (s.H * s.K, s.D), (s.D, s.ups * s.F), (s.F, s.D)]
    return s.S * layer + [(s.D, s.V)]


def weight_bytes(s: Step) -> int:
    """All matrices of products. Tables of positions, norms and biases are small beside them, and left out."""
    return s.itemsize * sum(inputs * outputs for inputs, outputs in matrices_of_step(s))


def held_bytes(s: Step, cache: str) -> int:
    """Keys and values of all layers between two steps."""
    positions = {OWN: s.R * (s.N + s.T), ONCE: s.B * s.N + s.R * s.T}[cache]
    return s.S * positions * 2 * s.G * s.K * s.itemsize


def products_cost(s: Step) -> Cost:
    """All products of a step with weights."""
    cost = CATALOG["linear"].cost
    return sum_of_costs(
        cost(_array_without_memory(s, s.R, inputs), Weight(_array_without_memory(s, inputs, outputs)))
        for inputs, outputs in matrices_of_step(s)
    )


def attention_cost(s: Step, cache: str) -> Cost:
    """Attention of all layers."""
    begin_B, begin_R, q_RHK = np.zeros(s.B, int), np.zeros(s.R, int), _array_without_memory(s, s.R, s.H, s.K)
    if cache == OWN:
        kv = _array_without_memory(s, s.R, s.G, s.N + s.T, s.K)
        cost = CATALOG["grouped"].cost(q_RHK, kv, kv, begin_R, begin_R + s.N + s.T, 1.0)
    else:
        prompt, generated = _array_without_memory(s, s.B, s.G, s.N, s.K), _array_without_memory(s, s.R, s.G, s.T, s.K)
        cost = CATALOG["split"].cost(q_RHK, prompt, prompt, begin_B, generated, generated, begin_R, begin_R + s.T, 1.0)
    return sum_of_costs([cost] * s.S)


def reordered_bytes(s: Step, cache: str, moving: int) -> int:
    """Bytes that `reorder_cache` copies in all layers, keys and values, if this many beams a sentence change places."""
    written = s.N + s.T if cache == OWN else s.T
    kv_RGMK = _array_without_memory(s, s.R, s.G, written, s.K)
    return 2 * s.S * CATALOG["reorder"].cost(kv_RGMK, _parents_of_rows(s, moving), np.full(s.R, written)).bytes


def table_bytes(s: Step, moving: int) -> int:
    """Bytes that `update_indirection` copies in all layers' tables, if this many beams a sentence change places."""
    indirection_RT = np.broadcast_to(np.zeros((), np.int64), (s.R, s.T))
    return s.S * CATALOG["indirection"].cost(indirection_RT, _parents_of_rows(s, moving), np.full(s.R, s.T)).bytes


def _parents_of_rows(s: Step, moving: int) -> np.ndarray:
    """The row from which each row goes on: the first `moving` beams of a sentence from each other, the rest from
    themselves. One beam alone has no other to go on from."""
    parent_BW = np.arange(s.R).reshape(s.B, s.W)
    parent_BW[:, :moving] = np.roll(parent_BW[:, :moving], 1, axis=1)
    return parent_BW.ravel()


def _array_without_memory(s: Step, *shape: int) -> np.ndarray:
    """An array of that shape which takes no memory: cost models ask for shapes and bytes alone."""
    return np.broadcast_to(np.zeros((), s.dtype), shape)


# The numbers of the figures: {what: {who: number}}

Numbers = dict[str, dict[str, float]]


def cache_numbers(s: Step, machine: Machine) -> Numbers:
    """The cache beside the weights, each beam with its own."""
    parts = {"weights": products_cost(s), "cache": attention_cost(s, OWN)}
    return {HELD: {"weights": weight_bytes(s), "cache": held_bytes(s, OWN)}, **_numbers_of_parts(parts, machine)}


def beam_numbers(s: Step, machine: Machine) -> Numbers:
    """A prompt that each beam keeps beside one that is kept once: the cache, and attention to it."""
    return {
        HELD: {cache: held_bytes(s, cache) for cache in (OWN, ONCE)},
        REORDERED: {cache: reordered_bytes(s, cache, s.W) for cache in (OWN, ONCE)},
        **_numbers_of_parts({cache: attention_cost(s, cache) for cache in (OWN, ONCE)}, machine),
    }


def reorder_numbers(s: Step, machine: Machine) -> Numbers:
    """Three ways to follow the beams: all rows into new arrays, in place what moves, and a table of where rows lie."""

    def costs_by_way_of_reordering(moving: int) -> dict[str, float]:
        whole = 2 * held_bytes(s, OWN)  # read and written
        return {"new arrays": whole, "in place": reordered_bytes(s, OWN, moving), "a table": table_bytes(s, moving)}

    return {
        REORDERED: costs_by_way_of_reordering(s.W),
        SWAPPED: costs_by_way_of_reordering(2),
        COPYING: {way: machine.seconds(Cost(count, 0)) for way, count in costs_by_way_of_reordering(s.W).items()},
        MOVED: {"weights": products_cost(s).bytes, "cache": attention_cost(s, OWN).bytes},
    }


def head_numbers(s: Step, machine: Machine) -> Numbers:
    """The cache and whole steps with H key/value heads, with G and with one."""
    steps = {"multi-head": replace(s, G=s.H), "grouped": s, "multi-query": replace(s, G=1)}
    parts = {name: sum_of_costs([products_cost(step), attention_cost(step, OWN)]) for name, step in steps.items()}
    return {HELD: {name: held_bytes(step, OWN) for name, step in steps.items()}, **_numbers_of_parts(parts, machine)}


def el_numbers(s: Step, machine: Machine) -> Numbers:
    """EL beside caches of keys and values: what is kept of a source, and a step's attention to it (EL, section 3.3).

    Each product is a kernel of its own, as in the paper. Three groups of them follow each other, and their seconds add.
    """
    sizes = el_costs.Sizes(s.B, s.W, s.N, s.H, s.D, s.itemsize)
    methods = el_costs.METHODS[1:]
    groups = {method: el_costs.costs_of_groups(sizes, method).values() for method in methods}
    seconds = {method: s.S * sum(map(machine.seconds, costs)) for method, costs in groups.items()}
    parts = _numbers_of_parts({method: sum_of_costs([*costs] * s.S) for method, costs in groups.items()}, machine)
    return {
        HELD: {method: el_costs.held_input_bytes(sizes, method, s.S) for method in methods},
        **parts, SECONDS: seconds,
    }  # fmt: skip


def _numbers_of_parts(parts: dict[str, Cost], machine: Machine) -> Numbers:
    return {
        MOVED: {name: cost.bytes for name, cost in parts.items()},
        OPERATIONS: {name: cost.operations for name, cost in parts.items()},
        SECONDS: {name: machine.seconds(cost) for name, cost in parts.items()},
    }


FIGURES: dict[str, Callable[[Step, Machine], Numbers]] = {
    "cache": cache_numbers, "reorder": reorder_numbers, "beams": beam_numbers, "heads": head_numbers, "el": el_numbers,
}  # fmt: skip
