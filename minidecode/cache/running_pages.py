"""A running batch in pages: all rows of all requests share one pool, and each has a table.

A prompt lies once for all beams and samples that go on from it. A beam that goes on from another takes over its table,
and a page that several tables hold is copied before one of them writes. So memory is taken as texts grow, a page at a
time. Where the pool runs out of pages, the scheduler preempts a request.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .pages import PAGE, PagePool, pages_for
from .running import RunningCache, RunningRows


class PagedRows(RunningRows):
    """The rows that run, and the table of each: one object for all layers, which have the same pages."""

    page: ClassVar[int] = PAGE  # positions

    def __init__(self, capacity: int, positions: int, source_positions: int, pages: int):
        super().__init__(capacity, positions, source_positions)
        self.pool = PagePool(pages, self.page)
        self.tables: list[list[int]] = []
        self.table_RX = np.zeros((capacity, pages_for(positions, self.page)), np.int64)
        self.source_X = self.target_X = np.zeros(0, np.int64)  # pages that each layer copies before it writes

    def join(self, which: list[int], lengths_R: list[int], source_lengths_R: list[int]) -> slice:
        """Each text gets pages once; rows that begin with the same text hold the same."""
        mine = super().join(which, lengths_R, source_lengths_R)
        table_of: dict[int, list[int]] = {}
        for text, length in zip(which, lengths_R, strict=True):
            if text in table_of:
                table = self.pool.fork(table_of[text])
            else:
                table = []
                self.pool.grow(table, length)
                table_of[text] = table
            self._write(len(self.tables), table)
            self.tables.append(table)
        return mine

    def can_join(self, lengths: list[int], rows: int) -> bool:
        """A page more for each row: each writes one of its own in the next step."""
        needed = sum(pages_for(length, self.page) for length in lengths) + rows
        return super().can_join(lengths, rows) and needed <= self.pool.available - self.number

    def can_hold(self, positions: int, rows: int) -> bool:
        return super().can_hold(positions, rows) and rows * (pages_for(positions, self.page) + 1) <= self.pool.pages

    def has_room(self, end_R: np.ndarray) -> bool:
        """A row takes a page where it begins one, and where others hold the one that it writes."""
        needed = sum(
            len(table) * self.page < end or self.pool.references[table[(end - 1) // self.page]] > 1
            for table, end in zip(self.tables, end_R.tolist(), strict=True)
        )
        return needed <= self.pool.available

    def step(self, end_R: np.ndarray) -> None:
        """Each row gets a page of its own to write."""
        super().step(end_R)
        copies = []
        for r, (table, end) in enumerate(zip(self.tables, end_R.tolist(), strict=True)):
            self.pool.grow(table, end)
            if (copy := self.pool.writable(table, (end - 1) // self.page)) is not None:
                copies.append(copy)
            self.table_RX[r, (end - 1) // self.page] = table[(end - 1) // self.page]
        self.source_X, self.target_X = np.array(copies, np.int64).reshape(-1, 2).T.copy()

    def reorder(self, rows: slice, parent_X: np.ndarray) -> None:
        """Tables move, and no keys and values."""
        before = self.tables[rows]
        after = [self.pool.fork(before[parent]) for parent in parent_X]
        for r, (old, new) in enumerate(zip(before, after, strict=True), rows.start):
            self.pool.release(old)
            self.tables[r] = new
            self._write(r, new)

    def keep_only(self, stays_R: np.ndarray) -> None:
        """The pages of the others come back to the pool."""
        stays = set(stays_R.tolist())
        for r, table in enumerate(self.tables):
            if r not in stays:
                self.pool.release(table)
        self.tables = [self.tables[r] for r in stays_R]
        self.table_RX[: len(stays_R)] = self.table_RX[stays_R]
        super().keep_only(stays_R)

    def _write(self, r: int, table: list[int]) -> None:
        self.table_RX[r, : len(table)] = table


class PagedRunningCache(RunningCache):
    """One decoder layer's keys and values of all rows that run, in pages; those of sources lie in blocks."""

    rows: PagedRows

    def __init__(self, block: Any, rows: PagedRows):
        super().__init__(block, rows)
        self.k_XGMK: Any = None  # made when the first row says how wide and of which type they are
        self.v_XGMU: Any = None

    def keep(self, k_RGK: np.ndarray, v_RGU: np.ndarray, places: list[slice], first: int) -> None:
        """Each text is written once, into the pages of the first row that has it."""
        if self.k_XGMK is None:
            self.k_XGMK, self.v_XGMU = (
                np.zeros((self.rows.pool.pages, x.shape[1], self.rows.page, x.shape[2]), x.dtype)
                for x in (k_RGK, v_RGU)
            )
        for row, place in {place.start: (row, place) for row, place in enumerate(places, first)}.values():
            position = np.arange(place.stop - place.start)
            page = self.rows.table_RX[row, position // self.rows.page]
            self.k_XGMK[page, :, position % self.rows.page] = k_RGK[place]
            self.v_XGMU[page, :, position % self.rows.page] = v_RGU[place]

    def close_up(self, stays_R: np.ndarray) -> None:
        """Pages stay where they are."""

    def reorder(self, ops: Any, rows: slice, parent_X: np.ndarray) -> None:
        """Tables have moved."""

    def append(self, ops: Any, qkv_RX: np.ndarray, h_RD: np.ndarray) -> np.ndarray:
        """Keys and values of each row's new token, into its newest page; returns the queries."""
        rows = self.rows
        if len(rows.source_X):
            for x_XGMX in (self.k_XGMK, self.v_XGMU):
                ops.copy_pages(x_XGMX, rows.source_X, rows.target_X)
        place_R = rows.end_R[: rows.number] - 1
        pages = self.k_XGMK, self.v_XGMU, rows.table_RX[: rows.number]
        return ops.append_paged(qkv_RX, self.bias_X, self.heads, *pages, place_R)

    def attend(self, ops: Any, q_RHK: np.ndarray) -> np.ndarray:
        """Attention of each row to what its table finds, or to what of it is in its window."""
        h, end_R = self.heads, self.rows.end_R[: self.rows.number]
        begin_R = np.maximum(0, end_R - h.window) if h.window else np.zeros_like(end_R)
        pages = self.k_XGMK, self.v_XGMU, self.rows.table_RX[: self.rows.number]
        return ops.attend_paged(q_RHK, *pages, begin_R, end_R, h.scale, **h.biases)
