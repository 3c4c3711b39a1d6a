"""Looks at a generation between its steps: who continues whom, what the caches hold, which ops were called.

A text is a list of entries. Entry p < N is the prompt's token at position p; entry N + s*R + r is the token that row r
took in step s. So an entry names a token of the beam tree, and a brick of a cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...cache.cross import DecoderCache
from ...catalog import Cost
from ...device.arrays import fetch
from ...runtime.engine import Engine
from ...runtime.receipt import bytes_held_by, least_cost
from .boxes import Call, shape_and_weight_of_call

NEW, COPIED, KEPT, AGAIN = "+", "c", "k", "a"  # written first in this step; moved; where it was; computed again


class Fed(NamedTuple):
    """The arguments of `Engine.step`."""

    tokens_RM: np.ndarray
    length_R: np.ndarray
    parent_R: np.ndarray  # each row itself where the search moved none


@dataclass
class Strip:
    """One row of one array of a layer's cache, after a step: a brick for each position.

    part: "own" (what the decoder read and wrote), or "source" (what an encoder read). brick: bytes of a brick, keys and
    values of all layers together. cells: the entry, or of a source the position, that each brick holds; -1 for none.
    states: a letter for each brick, NEW, COPIED, KEPT or AGAIN, and a space for none. readers: by how many rows each is
    read. room: bricks that are allocated behind these, and not written yet.
    """

    part: str
    array: str
    row: int
    brick: int
    cells: list[int]
    states: str
    readers: list[int]
    room: int


class Watch:
    """A watcher of one generation of one sentence. R: its rows; N: tokens that its text begins with."""

    def __init__(self, R: int, N: int):
        self.R, self.N = R, N
        self.fed: list[Fed] = []  # by step, from the second on
        self.strips: list[list[Strip]] = []  # by step
        self.held: list[int] = []  # bytes in the caches, by step
        self.calls: list[Call] = []  # of ops, in their order
        self.begins: list[int] = []  # how many of them were made before a step begins
        self.paths = [list(range(N))] * R  # the entries of each row's text
        self._before: dict[tuple[str, str], tuple[np.ndarray, list[list[bytes]]]] = {}

    def step_begins(self, engine: Engine, tokens_RM, length_R, parent_R) -> None:
        """Notes the tokens that go through the model next; see `Watcher`."""
        parent_R = np.arange(self.R) if parent_R is None else fetch(parent_R).copy()
        first = self.N + len(self.fed) * self.R
        self.paths = [[*self.paths[parent], first + r] for r, parent in enumerate(parent_R.tolist())]
        self.fed.append(Fed(fetch(tokens_RM).copy(), fetch(length_R).copy(), parent_R))
        self.begins.append(len(self.calls))

    def forward_ended(self, engine: Engine) -> None:
        """Notes what the caches hold; see `Watcher`."""
        if not self.begins:
            self.begins.append(len(self.calls))
        of_source = engine.source.arrays() if engine.source is not None else ()
        self.held.append(bytes_held_by([*(a for cache in engine.caches for a in cache.arrays()), *of_source]))
        self.strips.append(
            self._strips_of_caches(engine.caches) if engine.make_cache.keeps else self._describe_recomputed_rows()
        )

    def cost_of(self, op: str, function: Any, given: dict[str, Any]) -> Cost | None:
        """Notes a call of an op; its cost is the catalog's. For `costs` of `Model.generate`."""
        self.calls.append(Call(op, *shape_and_weight_of_call(given)))
        return least_cost(op, function, given)

    def _describe_recomputed_rows(self) -> list[Strip]:
        """Each row's text, where there is no cache and nothing is kept."""
        return [
            Strip("own", "", r, 0, path, AGAIN * len(path), [1] * len(path), 0) for r, path in enumerate(self.paths)
        ]

    def _strips_of_caches(self, caches: list[Any]) -> list[Strip]:
        """The last layer's arrays, whose numbers depend on all that a beam has read: equal bytes are copies."""
        strips = []
        for part, cache in caches_of_layer(caches[-1]):
            arrays = arrays_held_by(cache)
            for name, array in arrays.items():
                if (letters := name.rpartition("_")[2])[0] in "BR" and letters[-1] in "KD":
                    brick = self._brick_bytes(caches, part, name)
                    table_RT = arrays.get("indirection_RT") if "T" in letters else None
                    strips += self._strips_of_array(part, cache, name, letters, fetch(array), table_RT, brick)
        return strips

    def _strips_of_array(self, part, cache, name, letters, array, table_RT, brick: int) -> list[Strip]:
        axis = next(i for i, letter in enumerate(letters) if letter in "NMT")
        rows_XMX = np.moveaxis(array, axis, 1)
        X, M = rows_XMX.shape[:2]
        contents = [[rows_XMX[x, m].tobytes() for m in range(M)] for x in range(X)]
        last, before = self._before.get((part, name), (None, []))
        known = {content for row in before for content in row}
        strips = []
        for x in range(X):
            cells = self._entries_of(part, cache, letters, x, M, table_RT is not None)
            states = ""
            for m, entry in enumerate(cells):
                if entry < 0:
                    states += " "
                elif last is array and before[x][m] == contents[x][m]:
                    states += KEPT
                else:
                    states += COPIED if contents[x][m] in known else NEW
            used = max((m + 1 for m in range(M) if cells[m] >= 0), default=0)
            readers = self._count_readers(letters, x, used, table_RT)
            strips.append(Strip(part, name, x, brick, cells[:used], states[:used], readers, M - used))
        self._before[part, name] = array, contents  # held, so that no new array gets its place
        return strips

    def _entries_of(self, part: str, cache: Any, letters: str, x: int, M: int, by_table: bool) -> list[int]:
        """What each position of row x of an array holds, -1 for nothing."""
        if part == "source":
            return list(range(M))
        path, steps = self.paths[x if letters[0] == "R" else 0], len(self.fed)
        written = len(path)
        if cache.slots_wrap:  # position p lies in slot p % M
            newest = [written - 1 - (written - 1 - m) % M for m in range(M)]
            return [path[p] if p >= 0 else -1 for p in newest]
        if "T" not in letters:
            return [path[p] if p < written and (letters[0] == "R" or p < self.N) else -1 for p in range(M)]
        if by_table:  # nothing moves: a row holds what it wrote itself
            return [self.N + t * self.R + x if t < steps else -1 for t in range(M)]
        return [path[self.N + t] if t < steps else -1 for t in range(M)]

    def _count_readers(self, letters: str, x: int, used: int, table_RT) -> list[int]:
        if table_RT is not None:
            return (fetch(table_RT)[:, :used] == x).sum(axis=0).tolist()
        return [self.R if letters[0] == "B" else 1] * used

    def _brick_bytes(self, caches: list[Any], part: str, name: str) -> int:
        """Bytes of one position of one row in all layers: of keys and the values beside them, or of hidden states."""
        twin = name.replace("k_", "v_")[:-1] + "U"
        arrays = [arrays_held_by(cache) for layer in caches for p, cache in caches_of_layer(layer) if p == part]
        distinct = {id(held[n]): held[n] for held in arrays for n in (name, twin) if n in held}
        letters = name.rpartition("_")[2]
        axis = next(i for i, letter in enumerate(letters) if letter in "NMT")
        return sum(a.nbytes // (a.shape[0] * a.shape[axis]) for a in distinct.values())


def caches_of_layer(layer: Any) -> list[tuple[str, Any]]:
    """A layer's caches by name: its own, and that of a source, if it has one."""
    return [("own", layer.target), ("source", layer.cross)] if isinstance(layer, DecoderCache) else [("own", layer)]


def arrays_held_by(cache: Any) -> dict[str, Any]:
    """What a cache holds between steps, by the names that its class gives it; a source in it is looked into."""
    held = {id(array) for array in cache.arrays()}
    named = vars(cache) | (vars(cache.source) if hasattr(cache, "source") else {})
    return {name: value for name, value in named.items() if id(value) in held}
