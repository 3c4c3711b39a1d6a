"""The caches of a running batch: rows of many requests come and go, and the arrays stay.

`join` is the inverse of `keep_only`: prompts that have been read elsewhere become rows behind those that run. Keys and
values lie in arrays of a fixed capacity, a block of M positions per row. So a step's arrays are views of the first
rows, and no row that runs is copied when another one comes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .cross import CrossCache


@dataclass
class RunningRows:
    """How many rows run, and how long they are: one object for all layers."""

    capacity: int  # rows
    positions: int  # of a row
    source_positions: int
    number: int = 0  # rows that run: the first ones of all arrays
    end_R: np.ndarray = field(init=False)  # positions that a row sees, that of its new token included
    source_end_R: np.ndarray = field(init=False)

    def __post_init__(self):
        self.end_R, self.source_end_R = (np.zeros(self.capacity, np.int64) for _ in range(2))

    def join(self, which: list[int], lengths_R: list[int], source_lengths_R: list[int]) -> slice:
        """Rows that run, too, behind the others -> these rows. which: the text that each begins with."""
        mine = slice(self.number, self.number + len(lengths_R))
        self.end_R[mine] = lengths_R
        if source_lengths_R:
            self.source_end_R[mine] = source_lengths_R
        self.number = mine.stop
        return mine

    def can_join(self, lengths: list[int], rows: int) -> bool:
        """Whether texts of these lengths find room, for so many rows behind them."""
        return self.number + rows <= self.capacity

    def can_hold(self, positions: int, rows: int) -> bool:
        """Whether so many rows of so many positions find room where nothing else is."""
        return rows <= self.capacity

    def has_room(self, end_R: np.ndarray) -> bool:
        """Whether the rows that run find room for a step after which they are so long."""
        return True

    def step(self, end_R: np.ndarray) -> None:
        """A step begins, in which each row's newest token is at position end[r] - 1."""
        self.end_R[: self.number] = end_R

    def reorder(self, rows: slice, parent_X: np.ndarray) -> None:
        """The rows of one request go on from these of its rows; each layer moves what it keeps."""

    def keep_only(self, stays_R: np.ndarray) -> None:
        """Keeps only these rows, in their order."""
        for end_R in (self.end_R, self.source_end_R):
            end_R[: len(stays_R)] = end_R[stays_R]
        self.number = len(stays_R)


class Blocks:
    """Keys and values of one layer, a block of fixed size for each row that there may be."""

    def __init__(self, capacity: int, positions: int):
        self.capacity, self.positions = capacity, positions
        self.k_RGMK: Any = None  # made when the first row says how wide and of which type they are
        self.v_RGMU: Any = None

    def join(self, first: int, k_RGK: np.ndarray, v_RGU: np.ndarray, places: list[slice]) -> None:
        """Row first + i begins with the keys and values at places[i]."""
        if self.k_RGMK is None:
            self.k_RGMK, self.v_RGMU = (
                np.zeros((self.capacity, x.shape[1], self.positions, x.shape[2]), x.dtype) for x in (k_RGK, v_RGU)
            )
        for row, place in enumerate(places, first):
            for to_RGMX, rows_RGX in ((self.k_RGMK, k_RGK), (self.v_RGMU, v_RGU)):
                to_RGMX[row, :, : place.stop - place.start] = rows_RGX[place].swapaxes(0, 1)

    def keep_only(self, stays_R: np.ndarray, written: int) -> None:
        """Keeps only these rows, in their order: those behind the first one that leaves move up."""
        moved = np.flatnonzero(stays_R != np.arange(len(stays_R)))
        if len(moved):
            to, source = slice(moved[0], len(stays_R)), stays_R[moved[0] :]
            for x_RGMX in (self.k_RGMK, self.v_RGMU):
                x_RGMX[to, :, :written] = x_RGMX[source, :, :written]

    def first(self, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """(k_RGMK, v_RGMU) of the rows that run."""
        return self.k_RGMK[:rows], self.v_RGMU[:rows]


class RunningCache:
    """One decoder layer's keys and values of all rows that run, each from position 0 on."""

    def __init__(self, block: Any, rows: RunningRows):
        self.bias_X, self.heads, self.rows = block.qkv.bias, block.heads, rows
        self.blocks = Blocks(rows.capacity, rows.positions)
        self.cross = RunningCross(block, rows) if rows.source_positions else None  # sources are of an encoder

    def join(self, cache: Any, which: list[int], first: int) -> None:
        """Rows from `first` on begin with the texts `which` of a prefill's cache, each as often as it is named."""
        target = cache.target if self.cross is not None else cache
        self.keep(target.k_RGK, target.v_RGU, places_of(target.offsets_X, which), first)
        if self.cross is not None:
            self.cross.join(cache.cross, which, first)

    def keep(self, k_RGK: np.ndarray, v_RGU: np.ndarray, places: list[slice], first: int) -> None:
        """The keys and values at places[i] are those of row first + i."""
        self.blocks.join(first, k_RGK, v_RGU, places)

    def keep_only(self, stays_R: np.ndarray) -> None:
        """Keeps only these rows; called before the rows leave."""
        self.close_up(stays_R)
        if self.cross is not None:
            self.cross.blocks.keep_only(stays_R, int(self.rows.source_end_R[: self.rows.number].max()))

    def close_up(self, stays_R: np.ndarray) -> None:
        """Of its own keys and values."""
        self.blocks.keep_only(stays_R, int(self.rows.end_R[: self.rows.number].max()))

    def reorder(self, ops: Any, rows: slice, parent_X: np.ndarray) -> None:
        """The rows of one request follow its beams; parents count from its first row."""
        for x_RGMX in self.blocks.first(rows.stop):
            ops.reorder_cache(x_RGMX[rows], parent_X, self.rows.end_R[rows])

    def append(self, ops: Any, qkv_RX: np.ndarray, h_RD: np.ndarray) -> np.ndarray:
        """Keys and values of each row's new token, into its last position; returns the queries."""
        place_R = self.rows.end_R[: self.rows.number] - 1
        return ops.append_kv(qkv_RX, self.bias_X, self.heads, *self.blocks.first(self.rows.number), place_R)

    def attend(self, ops: Any, q_RHK: np.ndarray) -> np.ndarray:
        """Attention of each row to its own positions, or to those in its window."""
        h, end_R = self.heads, self.rows.end_R[: self.rows.number]
        begin_R = np.maximum(0, end_R - h.window) if h.window else np.zeros_like(end_R)
        return ops.attend(q_RHK, *self.blocks.first(self.rows.number), begin_R, end_R, h.scale, **h.biases)


class RunningCross:
    """One decoder layer's keys and values of each row's source."""

    def __init__(self, block: Any, rows: RunningRows):
        self.query_bias_X, self.heads, self.rows = block.cross_q.bias, block.cross_heads, rows
        self.blocks = Blocks(rows.capacity, rows.source_positions)

    def join(self, cache: CrossCache, which: list[int], first: int) -> None:
        """A copy of its source for each row."""
        self.blocks.join(first, cache.k_RGK, cache.v_RGU, places_of(cache.source_offsets_X, which))

    def attend(self, ops: Any, q_RX: np.ndarray) -> np.ndarray:
        """Attention of each row to the whole of its source, from the query product without its bias."""
        q_RHK, _, _ = ops.split_heads(q_RX, self.query_bias_X, replace(self.heads, G=0))
        end_R = self.rows.source_end_R[: self.rows.number]
        blocks = self.blocks.first(self.rows.number)
        return ops.attend(q_RHK, *blocks, np.zeros_like(end_R), end_R, self.heads.scale)


def places_of(offsets_X: np.ndarray, which: list[int]) -> list[slice]:
    """Where the rows of these texts lie among those of all."""
    return [slice(int(offsets_X[x]), int(offsets_X[x + 1])) for x in which]
