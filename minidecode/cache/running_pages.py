"""A running batch in pages: all rows of all requests share one pool, and each has a table.

A prompt lies once for all beams and samples that go on from it. A beam that goes on from another takes over its table,
and a page that several tables hold is copied before one of them writes. So memory is taken as texts grow, a page at a
time. Where the pool runs out of pages, the scheduler preempts a request.

Requests share pages, too. Each whole page of a text that is read is published then. A text that begins with published
pages takes them into its table, and what is behind them is read. Texts of an encoder's decoder share none: what their
keys and values are depends on the source.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .pages import PAGE, ROOT, PagePool, PageTables, pages_for
from .parts import Part
from .running import RunningCache, RunningRows


class PagedRows(RunningRows):
    """The rows that there are, and the table of each: one object for all layers, which have the same pages."""

    page: ClassVar[int] = PAGE  # positions

    def __post_init__(self):
        """Makes the pool of `pages` pages; None: enough for a quarter of all rows."""
        super().__post_init__()
        each = pages_for(self.positions, self.page) + 1
        self.pool = PagePool(max(each, self.capacity * each // 4) if self.pages is None else self.pages, self.page)
        self.tables = PageTables(self.pool, self.capacity, self.positions)
        self.source_R = self.target_R = np.zeros(0, np.int64)  # pages that each layer copies before it writes

    def add_rows(self, texts: list[np.ndarray], rows: int, source_length: int = 0) -> list[np.ndarray] | None:
        """The pages of a text are taken once; rows that begin with it hold the same.

        Besides, each row needs a free page, for it writes one of its own in the next step.
        """
        tables, begun = [self._fork_published_pages(ids) for ids in texts], None
        needed = sum(pages_for(len(ids), self.page) - len(table) for ids, table in zip(texts, tables, strict=True))
        if needed + rows <= self.pool.available - self.number:
            begun = super().add_rows(texts, rows, source_length)
        if begun is None:
            for table in tables:
                self.pool.release(table)
            return None
        for row_X, ids, table in zip(begun, texts, tables, strict=True):
            self.pool.grow(table, len(ids))
            for table_of_row in (table, *(self.pool.fork(table) for _ in row_X[1:])):
                self.tables.add(table_of_row)
        return begun

    def skip_known_positions(self, part: Part) -> None:
        """Pages that another request has published since `begin` take the place of empty ones."""
        published = self._fork_published_pages(part.ids)
        for r in part.row_X:
            before = self.tables.tables[r]
            self.tables.set_table(r, self.pool.fork([*published, *before[len(published) :]]))
            self.pool.release(before)
        self.pool.release(published)
        part.first = len(published) * self.page

    def _fork_published_pages(self, ids: np.ndarray) -> list[int]:
        return [] if self.source_positions else self.pool.fork_prefix(ids.tolist())

    def note_read(self, part: Part) -> None:
        """Publishes the part's full pages, which are computed in all layers."""
        super().note_read(part)
        if not self.source_positions:
            table, parent = self.tables.tables[part.row_X[0]], ROOT
            for nth in range(part.last // self.page):
                self.pool.publish(table[nth], parent, part.ids[nth * self.page : (nth + 1) * self.page].tolist())
                parent = table[nth]

    def can_hold(self, positions: int, rows: int) -> bool:
        return super().can_hold(positions, rows) and rows * (pages_for(positions, self.page) + 1) <= self.pool.pages

    def has_room(self, end_R: np.ndarray) -> bool:
        return self.tables.pages_needed(end_R - 1) <= self.pool.available

    def page_counts(self) -> dict[str, int]:
        return {"used": self.pool.used, "cached": self.pool.cached, "free": self.pool.free}

    def begin_step(self, end_R: np.ndarray) -> None:
        """Each row gets a page of its own to write."""
        super().begin_step(end_R)
        self.source_R, self.target_R = self.tables.prepare_writes(end_R - 1)

    def reorder(self, rows: slice, parent_X: np.ndarray) -> None:
        """Tables move, and no keys and values."""
        self.tables.follow_parents(parent_X.tolist(), rows.start)

    def keep_only(self, stays_R: np.ndarray) -> None:
        """The pages of the others come back to the pool."""
        self.tables.keep_only(stays_R.tolist())
        super().keep_only(stays_R)


class PagedRunningCache(RunningCache):
    """One decoder layer's keys and values of all rows, in pages; those of sources lie in blocks."""

    rows: PagedRows
    rows_kind = PagedRows

    def __init__(self, block: Any, rows: PagedRows):
        super().__init__(block, rows)
        self.k_XGMK: Any = None  # made when the first row says how wide and of which type they are
        self.v_XGMU: Any = None

    def write(self, part: Part, k_NGK: np.ndarray, v_NGU: np.ndarray) -> None:
        """Once, into the pages that all rows of the text hold."""
        if self.k_XGMK is None:
            self.k_XGMK, self.v_XGMU = (
                np.zeros((self.rows.pool.pages, x.shape[1], self.rows.page, x.shape[2]), x.dtype)
                for x in (k_NGK, v_NGU)
            )
        page_N, slot_N = self._pages_and_slots_of_positions(part, np.arange(part.first, part.last))
        self.k_XGMK[page_N, :, slot_N], self.v_XGMU[page_N, :, slot_N] = k_NGK, v_NGU

    def keys_and_values_before(self, part: Part) -> tuple[np.ndarray, ...]:
        """(k_NGK, v_NGU): what was read of a part's text before it, by any request."""
        page_N, slot_N = self._pages_and_slots_of_positions(part, np.arange(part.first))
        return self.k_XGMK[page_N, :, slot_N], self.v_XGMU[page_N, :, slot_N]

    def _pages_and_slots_of_positions(self, part: Part, position_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(page_N, slot_N): where positions of a text lie."""
        nth_N, slot_N = np.divmod(position_N, self.rows.page)
        return self.rows.tables.table_RX[part.row_X[0], nth_N], slot_N

    def keep_rows_of_blocks(self, stays_R: np.ndarray) -> None:
        """Pages stay where they are."""

    def reorder(self, ops: Any, rows: slice, parent_X: np.ndarray) -> None:
        """Tables have moved."""

    def copy_shared_pages(self, ops: Any) -> None:
        """Pages that a row is about to write, and others hold, are copied."""
        rows = self.rows
        if (rows.source_R != rows.target_R).any():
            for x_XGMX in (self.k_XGMK, self.v_XGMU):
                ops.copy_pages(x_XGMX, rows.source_R, rows.target_R)

    def append(self, ops: Any, qkv_RX: np.ndarray, h_RD: np.ndarray) -> np.ndarray:
        """Keys and values of each row's new token, into its newest page; returns the queries."""
        R, rows = self.rows.stepping, self.rows
        pages = self.k_XGMK, self.v_XGMU, rows.tables.table_RX[:R]
        return ops.append_paged(qkv_RX, self.bias_X, self.heads, *pages, rows.last_R[:R])

    def attend(self, ops: Any, q_RHK: np.ndarray) -> np.ndarray:
        """Attention of each row to what its table finds, or to what of it is in its window."""
        h, pages = self.heads, (self.k_XGMK, self.v_XGMU, self.rows.tables.table_RX[: self.rows.stepping])
        return ops.attend_paged(q_RHK, *pages, *self.seen_range(), h.scale, **h.biases)
