"""The page pool of a paged cache: which pages are free, how many tables hold each, and which prompts lie in them.

A cache is cut into pages of 16 positions, and a sequence has a table: a list of page numbers, position after position.
Pages of a table lie anywhere, so that sequences grow without copies, and several tables may hold the same page. A page
is in one of three states:

- free: no table holds it, and what it holds counts for nothing;
- used: some tables hold it, as many as it has references;
- cached: no table holds it, but a prompt like the one that it holds may come again. The page that was released the
  longest ago is the first to be evicted.

Pool and tables know numbers alone: keys and values lie elsewhere, one array of pages per layer, under these numbers.
Four rules keep answers right:

1. A published page is named by the page before it and its own tokens. Keys and values depend on all tokens before
   them, so the same 16 tokens behind another page are another page.
2. A page is published once it is full and computed. So no published page is ever written again.
3. `fork_prefix` leaves at least the last token to be computed: its logits choose the next token, and no page holds
   those.
4. A page that several tables hold is copied before one of them writes (`make_writable`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

PAGE = 16  # positions
ROOT = -1  # stands for the page before the first one


class NoPageError(Exception):
    """All pages are used. The scheduler asks `available` first, or ends or preempts a sequence."""


def pages_for(positions: int, size: int = PAGE) -> int:
    """How many pages hold this many positions."""
    return -(-positions // size)


class PagePool:
    """The numbers 0 to pages - 1. A table is a list of them, which its owner keeps and the pool only extends."""

    def __init__(self, pages: int, size: int = PAGE):
        self.pages, self.size = pages, size
        self.references = [0] * pages  # by page: how many tables hold it
        self._free = list(range(pages))[::-1]
        self._cached: dict[int, None] = {}  # in the order in which they were released
        self._named: dict[tuple[int, tuple[int, ...]], int] = {}  # the published page by (page before it, tokens)
        self._name_of: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._behind: dict[int, set[int]] = {}  # by published page: the published pages right behind it

    @property
    def free(self) -> int:
        """How many pages hold nothing."""
        return len(self._free)

    @property
    def cached(self) -> int:
        """How many pages hold a prompt that no table uses now."""
        return len(self._cached)

    @property
    def used(self) -> int:
        """How many pages some table holds."""
        return self.pages - self.free - self.cached

    @property
    def available(self) -> int:
        """How many pages `take_free_page` can give before NoPageError: free ones, and cached ones, which it evicts."""
        return self.free + self.cached

    def take_free_page(self) -> int:
        """A page with one reference, to be written. Evicts if none is free. Raises NoPageError."""
        if not self._free:
            if not self._cached:
                raise NoPageError(f"all {self.pages} pages are used")
            self._forget(next(iter(self._cached)))
        page = self._free.pop()
        self.references[page] = 1
        return page

    def grow(self, table: list[int], positions: int) -> None:
        """Extends a table to this many positions. Raises NoPageError, and then takes none."""
        missing = pages_for(positions, self.size) - len(table)
        if missing > self.available:
            raise NoPageError(f"{missing} pages are needed, and of {self.pages} only {self.available} are not used")
        table.extend(self.take_free_page() for _ in range(missing))

    def share(self, page: int) -> None:
        """Lets one more table hold a used or a cached page."""
        self._cached.pop(page, None)
        self.references[page] += 1

    def fork(self, table: Sequence[int]) -> list[int]:
        """A second table of the same pages: a beam that goes on from another, or one more sample of a prompt."""
        for page in table:
            self.share(page)
        return list(table)

    def release(self, table: Iterable[int]) -> None:
        """A table ends. The last pages go first, so that no page is evicted before those behind it."""
        for page in reversed(list(table)):
            assert self.references[page] > 0, f"page {page} is released once too often"
            self.references[page] -= 1
            if self.references[page] == 0:
                if page in self._name_of:
                    self._cached[page] = None
                else:
                    self._free.append(page)

    def make_writable(self, table: list[int], nth: int) -> tuple[int, int] | None:
        """Makes the nth page of a table its own before it is written: copy on write.

        Returns (source, target) if the caller must copy a page before it writes, and None otherwise. Other tables still
        hold the source. So in one round of calls no page is both a source and a target, and all copies may run at once.
        """
        page = table[nth]
        assert page not in self._name_of, f"page {page} is published: it is full, and is not written again"
        if self.references[page] == 1:
            return None
        table[nth] = self.take_free_page()
        self.references[page] -= 1
        return page, table[nth]

    def fork_prefix(self, tokens: Sequence[int]) -> list[int]:
        """A table of the longest computed prefix of a prompt, in whole pages. The table holds a reference to each.

        It has at most len(tokens) - 1 positions. Compute the others, from `len(table) * size` on.
        """
        table: list[int] = []
        for first in range(0, (len(tokens) - 1) // self.size * self.size, self.size):
            name = table[-1] if table else ROOT, tuple(map(int, tokens[first : first + self.size]))
            if name not in self._named:
                break
            table.append(self._named[name])
        return self.fork(table)

    def publish(self, page: int, parent: int, tokens: Sequence[int]) -> bool:
        """Lets `fork_prefix` find a page that is used, full and computed.

        parent: the page before it in its table, or ROOT.
        Returns False, and the page stays private, where another page has this name already (two sequences computed the
        same prompt) and where the parent is private: its number will mean something else one day.
        """
        assert self.references[page] > 0 and len(tokens) == self.size, "only a full page that is used is published"
        name = parent, tuple(map(int, tokens))
        if page in self._name_of:
            return self._name_of[page] == name
        if name in self._named or (parent != ROOT and parent not in self._name_of):
            return False
        self._named[name], self._name_of[page] = page, name
        self._behind.setdefault(parent, set()).add(page)
        return True

    def _forget(self, page: int) -> None:
        """A published page loses its name, and so do all behind it, which are named by its number.

        The cached ones among them are free then; those that a table holds go on as private pages.
        """
        lost = [page]
        while lost:
            page = lost.pop()
            name = self._name_of.pop(page)
            del self._named[name]
            self._behind.get(name[0], set()).discard(page)
            lost += self._behind.pop(page, ())
            if page in self._cached:
                del self._cached[page]
                self._free.append(page)


class PageTables:
    """The tables of a batch's rows: lists for the pool, and the same numbers as an array for ops."""

    def __init__(self, pool: PagePool, rows: int, positions: int):
        self.pool = pool
        self.tables: list[list[int]] = []
        self.room_RX = np.zeros((rows, pages_for(positions, pool.size)), np.int64)  # of all rows that there may be

    @property
    def table_RX(self) -> np.ndarray:
        """The tables of the rows that there are."""
        return self.room_RX[: len(self.tables)]

    def add(self, table: list[int]) -> None:
        """Adds a row after the others, which takes over a table."""
        self.tables.append([])
        self.set_table(len(self.tables) - 1, table)

    def set_table(self, r: int, table: list[int]) -> None:
        """Gives row r this table."""
        self.tables[r] = table
        self.room_RX[r, : len(table)] = table

    def pages_needed(self, at_R: np.ndarray) -> int:
        """How many pages `prepare_writes` takes at most.

        A row takes one where it begins a page, and where others hold the page that it writes. The last of those that
        hold a page keeps it.
        """
        size, references = self.pool.size, self.pool.references
        each = zip(self.tables, at_R.tolist(), strict=False)
        return sum(len(table) * size <= at or references[table[at // size]] > 1 for table, at in each)

    def prepare_writes(self, at_R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Before each of the first rows writes position at[r]: (source_R, target_R), what `copy_pages` copies first.

        A row whose page is its own already has the same page as source and target.
        """
        copies = np.empty((2, len(at_R)), np.int64)
        for r, at in enumerate(at_R.tolist()):
            table, nth = self.tables[r], at // self.pool.size
            self.pool.grow(table, at + 1)
            copies[:, r] = self.pool.make_writable(table, nth) or (table[nth], table[nth])
            self.room_RX[r, nth] = table[nth]
        return copies[0], copies[1]

    def follow_parents(self, parents: Sequence[int], first: int = 0) -> None:
        """Row first + i goes on from the pages of row first + parents[i]."""
        moved = {
            first + i: self.pool.fork(self.tables[first + parent]) for i, parent in enumerate(parents) if parent != i
        }
        for r, table in moved.items():
            self.pool.release(self.tables[r])
            self.set_table(r, table)

    def keep_only(self, rows: Sequence[int]) -> None:
        """Keeps only these rows, in this order; the pages of the others return to the pool."""
        kept = set(rows)
        for r, table in enumerate(self.tables):
            if r not in kept:
                self.pool.release(table)
        self.tables = [self.tables[r] for r in rows]
        self.room_RX[: len(rows)] = self.room_RX[list(rows)]
