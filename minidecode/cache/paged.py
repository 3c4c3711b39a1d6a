"""The paged cache (vLLM): keys and values in pages of 16 positions, and a table of pages for each row.

A prompt lies once, and all beams or samples that go on from it hold its pages. A row that is about to write a page that
others hold gets a copy of that page alone. So following the beams moves no keys and values: tables change, and the
pages that no table holds any more are free for the next positions.

Every layer has tables of its own, and all are equal. They live on the host, so steps are not captured. The pages of a
generation are taken at its start; a server shares one pool between all requests (pages.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ..device.arrays import fetch
from .cross import SharedCrossCache
from .pages import PAGE, PagePool, PageTables, pages_for
from .prompt import PromptCache
from .protocol import CacheSize, SourceCacheKind
from .running_pages import PagedRunningCache


def tables_of_prompts(lengths: Sequence[int], beams: int, steps: int) -> PageTables:
    """Each sentence's prompt in pages, once, and room for each beam to go on for this many steps.

    Full pages of a prompt are never written again. Beside them a beam needs a copy of the last one, and its own.
    """
    longest = max(lengths)
    pool = PagePool(len(lengths) * (longest // PAGE + beams * (pages_for(steps) + 1)))
    tables = PageTables(pool, len(lengths) * beams, longest + steps)
    for length in lengths:
        prompt: list[int] = []
        pool.grow(prompt, length)
        for table in (prompt, *(pool.fork(prompt) for _ in range(beams - 1))):
            tables.add(table)
    return tables


class PagedCache(PromptCache):
    """One layer's keys and values, after the prefill: X pages of M positions, in which end[r] of row r are written."""

    about = "pages of 16 positions that beams and samples share until one writes"
    ops = frozenset({"append_paged", "attend_paged", "copy_pages"})
    in_place = False  # tables are Python's, and no graph can change them
    shares_pages = True
    running_kind = PagedRunningCache
    cross: ClassVar[SourceCacheKind] = SharedCrossCache

    @staticmethod
    def bytes_between_steps(size: CacheSize) -> int:
        """Full pages of each prompt; a copy of its last one for each row, and the row's own; the tables."""
        pages = size.B * (size.N // PAGE) + size.R * (pages_for(size.T) + 1)
        return size.stored * PAGE * pages + 8 * size.R * pages_for(size.N + size.T)

    @staticmethod
    def gathered_bytes(size: CacheSize) -> int:
        """The pages of each row, in order; and for each head, the table's numbers."""
        return size.R * pages_for(size.N + size.T) * (PAGE * size.computed + 8 * size.G)

    def begin_steps(self, ops, k_RGK, v_RGU, beams, steps):
        """Prompts into pages, each once."""
        lengths_B, h = np.diff(fetch(self.offsets_X)), self.heads
        self.tables = tables_of_prompts(lengths_B.tolist(), beams, steps)
        X, sentence_R = self.tables.pool.pages, np.repeat(np.arange(len(lengths_B)), lengths_B)
        position_R = np.arange(len(sentence_R)) - np.repeat(np.cumsum(lengths_B) - lengths_B, lengths_B)
        self.k_XGMK = np.zeros((X, h.G, PAGE, h.K), k_RGK.dtype, like=k_RGK)
        self.v_XGMU = np.zeros((X, h.G, PAGE, h.U), v_RGU.dtype, like=v_RGU)
        page_R = self.to_device(self.tables.table_RX[beams * sentence_R, position_R // PAGE])
        slot_R = self.to_device(position_R % PAGE)
        self.k_XGMK[page_R, :, slot_R], self.v_XGMU[page_R, :, slot_R] = k_RGK, v_RGU
        self.end_R = np.repeat(lengths_B, beams)

    def append_step(self, ops, qkv_RX):
        """Keys and values of the new position, into its page; returns the queries."""
        source_R, target_R = (self.to_device(a) for a in self.tables.prepare_writes(self.end_R))
        ops.copy_pages(self.k_XGMK, source_R, target_R)
        ops.copy_pages(self.v_XGMU, source_R, target_R)
        cache = self.k_XGMK, self.v_XGMU, self.to_device(self.tables.table_RX)
        q_RHK = ops.append_paged(qkv_RX, self.bias_X, self.heads, *cache, self.to_device(self.end_R))
        self.end_R += 1
        return q_RHK

    def attend_step(self, ops, q_RHK):
        """Attention of each row to what its table finds, itself included."""
        h = self.heads
        begin_R = np.maximum(self.end_R - h.window, 0) if h.window else np.zeros_like(self.end_R)
        numbers = (self.to_device(a) for a in (self.tables.table_RX, begin_R, self.end_R))
        return ops.attend_paged(q_RHK, self.k_XGMK, self.v_XGMU, *numbers, h.scale, **h.biases)

    def to_device(self, numbers: np.ndarray):
        """Numbers of the host, where the pages lie."""
        return np.asarray(numbers, like=self.k_XGMK)

    def reorder(self, ops, parent_R):
        """Row r goes on from the pages of row parent[r]; nothing is copied yet."""
        self.tables.follow_parents(fetch(parent_R).tolist())

    def keep_only(self, ops, stays_B, stays_R):
        """Keeps only these rows."""
        rows = fetch(stays_R).tolist()
        self.tables.keep_only(rows)
        self.end_R = self.end_R[rows]

    def step_arrays(self):
        return self.k_XGMK, self.v_XGMU, self.tables.room_RX
