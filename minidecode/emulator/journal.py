"""The journal of a launch: every traced access in the order in which it ran, kept flat so that keeping it is cheap.

An access is three numbers: the address (with the size of the element), the site (which instruction, and whether it
stores), and, by the place in the journal, the segment. A segment is what one thread runs between two points at which
order can change (a barrier, a fence, an atomic that takes up another thread's work); the thread and what it knows of
the others stand there once.
"""

from __future__ import annotations

from types import CodeType
from typing import NamedTuple

import numpy as np

from .memory import ATOMIC, SIZE_CODES, STORE, Memory
from .source import Place, instruction_starts, place_of_instruction
from .threads import Thread

_new_tuple = tuple.__new__  # half as long as a named tuple's own


class Segment(NamedTuple):
    """The start of a thread's accesses in the journal, and what it knew at them (see clocks.py)."""

    start: int
    thread: Thread
    epoch: int  # of its block
    clock: int
    row: tuple[int, ...]
    known: object
    converged: int


class Rows(NamedTuple):
    """Accesses as columns, in the order in which they ran."""

    address: np.ndarray
    itemsize: np.ndarray
    site: np.ndarray
    thread: np.ndarray  # within its block
    block: np.ndarray  # its number in the grid
    epoch: np.ndarray  # of its block
    segment: np.ndarray  # place in `segments`
    segments: list[Segment]
    values: dict[int, object]  # row -> what was stored


class Journal:
    """Kept by the arrays (addresses, sites, values) and the scheduler (segments)."""

    def __init__(self):
        self.addresses: list[int] = []
        self.sites: list[int] = []
        self.values: list[object] = []  # of the stores, in their order
        self.segments: list[Segment] = []
        self.closed = 0  # accesses that belong to a segment
        self.memories: list[Memory] = []
        self.bases = _Bases()
        self.atomic_sites: set[int] = set()
        self.kernel: CodeType | None = None  # set by the launch, to tell its lines from those of other functions

    def close_segment(self, thread: Thread) -> None:
        """What has been noted since the last segment was this thread's, with what it has known up to now."""
        if len(self.addresses) > self.closed:
            segment = self.closed, thread, thread.block.epoch, thread.clock, thread.row, thread.known, thread.converged
            self.segments.append(_new_tuple(Segment, segment))
            self.closed = len(self.addresses)

    def drain(self) -> Rows:
        """Everything since the last time, as columns; the journal is empty afterwards."""
        coded, site = np.array(self.addresses, np.int64), np.array(self.sites, np.int64)
        site = self.bases.sites_of_instructions()[site] + (site & 1) if len(site) else site
        numbers = [(s.start, s.thread.index, s.thread.block.number, s.epoch) for s in self.segments]
        start, *columns = np.array(numbers, np.int64).reshape(-1, 4).T
        segment = np.repeat(np.arange(len(start)), np.diff(start, append=len(coded)))
        stores = np.flatnonzero(self.access_kinds(site) == STORE)
        values = dict(zip(stores.tolist(), self.values, strict=True))
        address, itemsize = coded // SIZE_CODES, 1 << coded % SIZE_CODES
        rows = Rows(address, itemsize, site, *(column[segment] for column in columns), segment, self.segments, values)
        self.addresses.clear(), self.sites.clear(), self.values.clear()
        self.segments, self.closed = [], 0
        return rows

    def trim(self) -> None:
        """Drops an access of which only a part was noted, after an interruption at any point."""
        length = min(len(self.addresses), len(self.sites))
        stores = sum(site & 1 for site in self.sites[:length])
        if stores > len(self.values):
            length -= 1
        del self.addresses[length:], self.sites[length:]
        del self.values[sum(site & 1 for site in self.sites) :]

    def access_kinds(self, site: np.ndarray) -> np.ndarray:
        """LOAD, STORE or ATOMIC of each access: instructions lie at even places, and a store adds one."""
        kind = site & 1
        for atomic in self.atomic_sites:
            kind[site == atomic] = ATOMIC
        return kind

    def place_of_site(self, site: int) -> Place:
        code, offset = self.bases.code_and_offset_of_site(site)
        return place_of_instruction(code, offset)

    def array_holding(self, address: int, itemsize: int | None = None) -> Memory:
        """The array that has this byte; of several, one whose elements have this size."""
        holding = [m for m in reversed(self.memories) if m.start <= address < m.start + m.nbytes]
        return next((m for m in holding if m.dtype.itemsize == itemsize), holding[0])


class _Bases(dict):
    """id of a code object -> where its sites begin. Each function gets a range of its own, as long as its code."""

    def __init__(self):
        super().__init__()
        self.ranges: list[tuple[int, int, CodeType]] = []
        self.end = 2  # no base is 0, so that `get(...) or of(...)` finds it
        self._canonical = np.zeros(0, np.int64)

    def add(self, code: CodeType) -> int:
        length = len(code.co_code) + 2
        self[id(code)] = base = self.end
        self.ranges.append((base, base + length, code))  # keeps the code alive, so that its id stays its own
        self.end += length
        return base

    def base_of_code(self, code: CodeType) -> int:
        base = self.get(id(code))
        return self.add(code) if base is None else base

    def sites_of_instructions(self) -> np.ndarray:
        """Site -> the even site at which its instruction begins (see `instruction_start`)."""
        if len(self._canonical) < self.end:
            starts = [base + instruction_starts(code) for base, _, code in self.ranges]
            self._canonical = np.concatenate([[0, 1], *starts])
        return self._canonical

    def code_and_offset_of_site(self, site: int) -> tuple[CodeType, int]:
        base, code = next((start, code) for start, end, code in self.ranges if start <= site < end)
        return code, (site - base) & ~1
