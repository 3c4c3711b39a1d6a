"""Keeps captured steps for later generations of the same shapes.

A graph launches the same kernels on the same arrays with the same numbers. So what is kept with it are those arrays: a
bucket is the caches of a generation, the state of its search, and the steps that were captured over them. A later
generation fits into it if its own arrays have the same shapes, its options are the same, and the same functions run.
It copies them into the bucket's, which is about what a step reads, goes on with the bucket's, and its first step is one
launch. Lengths are alike often enough because of `rounded_capacity`: caches get room for more positions than they
hold, and since lengths are arrays, too (rule 3), no op looks beyond them.

A generation has its bucket for itself: to take one is to take it out of `Buckets`. One that fails or is stopped gives
nothing back.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from ..device.arrays import is_array
from ..device.graphs import Captured, mark_end_of_work, wait_for_work
from ..device.launch import OnHost
from .receipt import CountedOps, bytes_held_by

MOST, MOST_BYTES = 8, 4 << 30  # that are kept for later generations


def rounded_capacity(positions: int) -> int:
    """The size of a cache's array for this many positions: 8, 16, 32, 64 or a multiple of 128; 0 for none."""
    if positions > 64:
        return -(-positions // 128) * 128
    return max(8, 1 << (positions - 1).bit_length()) if positions else 0


class Bucket:
    """Caches and the state of a search, and what was captured over them and over no others."""

    def __init__(self, key: tuple, caches: list[Any], device: str, state: Any = None, places_R: Any = None):
        self.key, self.caches, self.device, self.state, self.places_R = key, caches, device, state, places_R
        self.parts: dict[Hashable, Captured] = {}  # of a step, by name; whole steps by what makes them differ
        self.end: Any = None  # of what its last generation launched, perhaps on another stream

    def captured_part(self, name: Hashable) -> Captured:
        """The part of this name, captured or not yet."""
        return self.parts.setdefault(name, Captured(self.device))

    @property
    def graphs(self) -> list[Any]:
        """The graphs of the parts that have been captured."""
        return [part.graph for part in self.parts.values() if part.graph is not None]

    @property
    def bytes(self) -> int:
        """What it holds on the device."""
        arrays = [array for cache in self.caches for array in cache.arrays()]
        return bytes_held_by(arrays) + sum(graph.bytes for graph in self.graphs)


class Buckets:
    """A model's: those that no generation has at the moment, the one that was used last at the end."""

    def __init__(self, device: str, most: int = MOST, most_bytes: int = MOST_BYTES):
        self.device, self.most, self.most_bytes = device, most, most_bytes
        self.idle: list[Bucket] = []
        self._lock = threading.Lock()

    def acquire(
        self, ops: CountedOps, caches: list[Any], state: Any = None, said: str = "", places_R: Any = None
    ) -> Bucket:
        """A bucket for one generation, which goes on from what these caches and this state hold.

        It is a kept one, or one made of them. said: the options, whose numbers are in a captured step. places_R: of
        texts behind their sources, where these end.
        """
        key = key_of_steps(ops, caches, state, said)
        with self._lock:
            bucket = next((kept for kept in reversed(self.idle) if kept.key == key), None)
            if bucket is None:
                return Bucket(key, caches, self.device, state, places_R)
            self.idle.remove(bucket)
        wait_for_work(bucket.end)
        overwrite_caches(bucket.caches, caches)
        for (_, mine), (_, new) in zip(arrays_of_state(bucket.state), arrays_of_state(state), strict=True):
            mine[...] = new
        if places_R is not None:
            bucket.places_R[...] = places_R
        return bucket

    def give_back(self, bucket: Bucket) -> None:
        """Keeps the bucket if something was captured in it; the least recently used ones go if all are too large.

        What the device had no memory for may fit later: the next generation that takes the bucket tries again.
        """
        bucket.parts = {name: part for name, part in bucket.parts.items() if not part.lacked_memory}
        if not bucket.graphs:
            return
        bucket.end = mark_end_of_work(self.device)
        with self._lock:
            self.idle.append(bucket)
            while len(self.idle) > self.most or sum(kept.bytes for kept in self.idle) > self.most_bytes:
                del self.idle[0]

    def clear(self) -> bool:
        """Gives up what is kept. Whether there was any."""
        with self._lock:
            had_any = bool(self.idle)
            self.idle.clear()
        return had_any


def arrays_of_state(state: Any) -> list[tuple[str, Any]]:
    """(name, array) of all that a search changes or reads on the device; none without a state."""
    return [] if state is None else [(name, array) for name, array in state.arrays() if is_array(array)]


def key_of_steps(ops: CountedOps, caches: list[Any], state: Any = None, said: Hashable = "") -> tuple:
    """What makes two steps of a model launch the same: the functions of the device, and shapes, types and numbers.

    Functions of the host are none of them, for no graph holds one. said: the options, or which pass it is.
    """
    functions = frozenset(item for item in ops.functions.items() if not isinstance(item[1], OnHost))
    parts = (part for cache in caches for part in parts_of_cache(cache))
    of_caches = tuple((name, (a.shape, a.dtype) if is_array(a) else a) for name, a in parts)
    return functions, of_caches, tuple((name, a.shape, a.dtype) for name, a in arrays_of_state(state)), said


def overwrite_caches(kept: list[Any], caches: list[Any]) -> None:
    """The kept caches get all that the others hold, to the last position, in the arrays that they have."""
    done = set()
    for one, other in zip(kept, caches, strict=True):
        for (_, mine), (_, new) in zip(parts_of_cache(one), parts_of_cache(other), strict=True):
            if is_array(mine) and mine is not new and id(mine) not in done:  # some are the model's; layers share others
                mine[...] = new
                done.add(id(mine))


def caches_over_same_arrays(caches: list[Any], but: Iterable[Any] = ()) -> list[Any]:
    """Caches over the same arrays, which may leave them behind for others: the bucket's stay as they are.

    but: arrays of which they get copies.
    """
    everything = (value for cache in caches for part in caches_within(cache) for value in vars(part).values())
    shared = {id(value): value for value in everything if not hasattr(value, "arrays") and not callable(value)}
    return copy.deepcopy(caches, shared | {id(array): array.copy() for array in but})


def parts_of_cache(cache: Any) -> Iterator[tuple[str, Any]]:
    """(name, value) of each kind, array and number of a cache; of those and of the source within it, too."""
    for part in caches_within(cache):
        yield "kind", type(part)
        yield from (item for item in vars(part).items() if is_array(item[1]) or isinstance(item[1], int))


def caches_within(cache: Any) -> Iterator[Any]:
    """The cache, and what it is made of."""
    yield cache
    for value in vars(cache).values():
        if hasattr(value, "arrays"):
            yield from caches_within(value)
