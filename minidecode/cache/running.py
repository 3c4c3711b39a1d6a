"""The caches of a running batch: rows of many requests come and go, and the arrays stay.

`add_rows` is the inverse of `keep_only`: a request gets rows behind those that are there. Its texts are read into
them, a part at a time (parts.py), and then they run. Keys and values lie in arrays of a fixed capacity: a block of M
positions per row. So a step's arrays are views of the first rows, and no row that runs is copied when another one
comes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from .cross import CrossCache
from .parts import Part


@dataclass
class RunningRows:
    """How many rows there are, and how long they are: one object for all layers.

    The first ones run. Behind them are those whose texts are being read.
    """

    capacity: int  # rows
    positions: int  # of a row
    source_positions: int
    pages: int | None = None  # of all rows, where they lie in pages
    number: int = 0  # rows that there are: the first ones of all arrays
    stepping: int = 0  # of them, those of the step that is computed
    end_R: np.ndarray = field(init=False)  # positions that a row sees: of its step, or that are read so far
    source_end_R: np.ndarray = field(init=False)

    def __post_init__(self):
        self.end_R, self.source_end_R, self.last_R = (np.zeros(self.capacity, np.int64) for _ in range(3))
        # By window (0: none), the first position that each row sees. last_R: the position that its step writes.
        self.begins = {0: np.zeros(self.capacity, np.int64)}

    def add_rows(self, texts: list[np.ndarray], rows: int, source_length: int = 0) -> list[np.ndarray] | None:
        """Adds `rows` rows after the others, for texts that will be read -> row_X of each text.

        Returns None where they do not fit.
        """
        if self.number + rows > self.capacity:
            return None
        row_XX = np.arange(self.number, self.number + rows).reshape(len(texts), -1)
        self.end_R[row_XX], self.source_end_R[row_XX] = 0, source_length
        self.number += rows
        return list(row_XX)

    def skip_known_positions(self, part: Part) -> None:
        """Before the first part of a text is read: it begins behind what has been computed by now. Here nothing is."""

    def note_read(self, part: Part) -> None:
        """Keys and values of a part are there."""
        self.end_R[part.row_X] = part.last

    def can_hold(self, positions: int, rows: int) -> bool:
        """Whether this many rows of this many positions would fit if nothing else were held."""
        return rows <= self.capacity

    def has_room(self, end_R: np.ndarray) -> bool:
        """Whether the first rows find room for a step after which they are so long."""
        return True

    def page_counts(self) -> dict[str, int]:
        """How many pages are in each state. Here rows lie in none."""
        return {}

    def begin_step(self, end_R: np.ndarray) -> None:
        """A step of the first rows begins, in which each one's newest token is at position end[r] - 1.

        All that layers ask for is computed here, into arrays that stay where they are: a captured step reads them.
        """
        self.stepping = R = len(end_R)
        self.end_R[:R], self.last_R[:R] = end_R, end_R - 1
        for window, begin_R in self.begins.items():
            begin_R[:R] = np.maximum(0, end_R - window) if window else 0

    def reorder(self, rows: slice, parent_X: np.ndarray) -> None:
        """The rows of one request go on from these of its rows; each layer moves what it keeps."""

    def keep_only(self, stays_R: np.ndarray) -> None:
        """Keeps only these rows, in this order."""
        for end_R in (self.end_R, self.source_end_R):
            end_R[: len(stays_R)] = end_R[stays_R]
        self.number = len(stays_R)


class Blocks:
    """Keys and values of one layer, a block of fixed size for each row that there may be."""

    def __init__(self, capacity: int, positions: int):
        self.capacity, self.positions = capacity, positions
        self.k_RGMK: Any = None  # made when the first row says how wide and of which type they are
        self.v_RGMU: Any = None

    def write(self, row_X: np.ndarray, first: int, k_NGK: np.ndarray, v_NGU: np.ndarray) -> None:
        """Keys and values of the positions from `first` on, for each of these rows."""
        if self.k_RGMK is None:
            self.k_RGMK, self.v_RGMU = (
                np.zeros((self.capacity, x.shape[1], self.positions, x.shape[2]), x.dtype) for x in (k_NGK, v_NGU)
            )
        here = slice(first, first + len(k_NGK))
        self.k_RGMK[row_X, :, here], self.v_RGMU[row_X, :, here] = k_NGK.swapaxes(0, 1), v_NGU.swapaxes(0, 1)

    def keep_only(self, stays_R: np.ndarray, written: int) -> None:
        """Keeps only these rows, in this order: from the first one that leaves its place on, they move."""
        moved = np.flatnonzero(stays_R != np.arange(len(stays_R)))
        if len(moved) and self.k_RGMK is not None:
            to, source = slice(moved[0], len(stays_R)), stays_R[moved[0] :]
            for x_RGMX in (self.k_RGMK, self.v_RGMU):
                x_RGMX[to, :, :written] = x_RGMX[source, :, :written]

    def first_rows(self, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """(k_RGMK, v_RGMU) of the first `rows` rows."""
        return self.k_RGMK[:rows], self.v_RGMU[:rows]


class RunningCache:
    """One decoder layer's keys and values of all rows, each from position 0 on."""

    rows_kind: ClassVar[type[RunningRows]] = RunningRows

    def __init__(self, block: Any, rows: RunningRows):
        self.bias_X, self.heads, self.rows = block.qkv.bias, block.heads, rows
        rows.begins.setdefault(self.heads.window or 0, np.zeros(rows.capacity, np.int64))
        self.blocks = Blocks(rows.capacity, rows.positions)
        self.cross = RunningCross(block, rows) if rows.source_positions else None  # sources are of an encoder

    def write(self, part: Part, k_NGK: np.ndarray, v_NGU: np.ndarray) -> None:
        """Keys and values of a part, for all rows that begin with its text."""
        self.blocks.write(part.row_X, part.first, k_NGK, v_NGU)

    def keys_and_values_before(self, part: Part) -> tuple[np.ndarray, ...]:
        """(k_NGK, v_NGU): what was read of a part's text before it."""
        row = part.row_X[0]
        return tuple(x_RGMX[row, :, : part.first].swapaxes(0, 1) for x_RGMX in self.blocks.first_rows(self.rows.number))

    def keep_only(self, stays_R: np.ndarray) -> None:
        """Keeps only these rows; called before the rows leave."""
        self.keep_rows_of_blocks(stays_R)
        if self.cross is not None:
            self.cross.blocks.keep_only(stays_R, int(self.rows.source_end_R[: self.rows.number].max()))

    def keep_rows_of_blocks(self, stays_R: np.ndarray) -> None:
        """Keeps these rows of its own keys and values."""
        self.blocks.keep_only(stays_R, int(self.rows.end_R[: self.rows.number].max()))

    def reorder(self, ops: Any, rows: slice, parent_X: np.ndarray) -> None:
        """The rows of one request follow its beams; parents count from its first row."""
        for x_RGMX in self.blocks.first_rows(rows.stop):
            ops.reorder_cache(x_RGMX[rows], parent_X, self.rows.end_R[rows])

    def copy_shared_pages(self, ops: Any) -> None:
        """Copies pages before a step that a row would write and others hold; here none is shared."""

    def append(self, ops: Any, qkv_RX: np.ndarray, h_RD: np.ndarray) -> np.ndarray:
        """Keys and values of each row's new token, into its last position; returns the queries."""
        R = self.rows.stepping
        return ops.append_kv(qkv_RX, self.bias_X, self.heads, *self.blocks.first_rows(R), self.rows.last_R[:R])

    def attend(self, ops: Any, q_RHK: np.ndarray) -> np.ndarray:
        """Attention of each row to its own positions, or to those in its window."""
        h, blocks = self.heads, self.blocks.first_rows(self.rows.stepping)
        return ops.attend(q_RHK, *blocks, *self.seen_range(), h.scale, **h.biases)

    def seen_range(self) -> tuple[np.ndarray, np.ndarray]:
        """(begin_R, end_R): the positions that each row of the step sees, all of its own or those in its window."""
        R = self.rows.stepping
        return self.rows.begins[self.heads.window or 0][:R], self.rows.end_R[:R]


class RunningCross:
    """One decoder layer's keys and values of each row's source."""

    def __init__(self, block: Any, rows: RunningRows):
        self.query_bias_X, self.heads, self.rows = block.cross_q.bias, block.cross_heads, rows
        self.blocks = Blocks(rows.capacity, rows.source_positions)

    def write(self, cache: CrossCache, parts: list[Part]) -> None:
        """The sources of these texts, for each of their rows."""
        ends = cache.source_offsets_X
        for part, begin, end in zip(parts, ends, ends[1:], strict=False):
            self.blocks.write(part.row_X, 0, cache.k_RGK[begin:end], cache.v_RGU[begin:end])

    def attend(self, ops: Any, q_RX: np.ndarray) -> np.ndarray:
        """Attention of each row to the whole of its source, from the query product without its bias."""
        q_RHK, _, _ = ops.split_heads(q_RX, self.query_bias_X, replace(self.heads, G=0))
        R, rows = self.rows.stepping, self.rows
        return ops.attend(
            q_RHK, *self.blocks.first_rows(R), rows.begins[0][:R], rows.source_end_R[:R], self.heads.scale
        )
