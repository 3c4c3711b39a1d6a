"""What a launch moves: loads and stores, 32-byte sectors, bank conflicts and active lanes, by line of source.

A **warp request** is the k-th execution of one instruction by the lanes of a warp since they last converged, which
they do at a barrier or an operation of the warp. So lanes that run the same loop make one request per turn, and a lane
that sits out a turn of a loop moves up to the next. A GPU forms its requests as it runs, and may join fewer lanes than
here where they have drifted apart.

- Global memory comes in **sectors** of 32 bytes: a request moves as many as it touches.
- Shared memory has 32 **banks** of 4 bytes: a request takes as many passes as one bank has different words to give, and
  lanes that want the same word share it. Passes beyond the first are conflicts. Requests of 8-byte elements go in two
  halves of the warp, of 16-byte elements in four quarters.
- Atomics are counted as such; the sectors that they move are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .journal import Journal, Rows
from .memory import ATOMIC, LOAD, SHARED_BASE, STORE
from .threads import WARP

SECTOR, BANKS, BANK_BYTES = 32, 32, 4
MOST_ROWS_KEPT = 1_000_000  # for pictures


@dataclass
class SiteCount:
    """What one instruction did in the whole launch."""

    kind: int
    shared: bool
    accesses: int = 0
    requests: int = 0
    lanes: int = 0  # active, summed over requests
    lanes_there: int = 0  # that the warps have, summed over requests
    sectors: int = 0
    least_sectors: int = 0  # that the bytes wanted would fill
    bytes_wanted: int = 0  # different bytes, per request
    bytes: int = 0  # elements times their size
    passes: int = 0
    worst: tuple | None = None  # (factor, block, warp, bytes wanted or lanes, sectors or passes, stride)

    def add_counts(self, other: SiteCount) -> None:
        for name in ("accesses", "requests", "lanes", "lanes_there", "sectors", "least_sectors", "bytes_wanted",
                     "bytes", "passes"):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.worst and (self.worst is None or other.worst[0] > self.worst[0]):
            self.worst = other.worst


class Requests(NamedTuple):
    """Accesses sorted by the warp request that they belong to."""

    order: np.ndarray  # rows, request by request, lanes in the order in which they ran
    start: np.ndarray  # of each request in `order`
    number: np.ndarray  # the request of each place in `order`


class Kept(NamedTuple):
    """Accesses kept for pictures, with the request of each."""

    block: np.ndarray
    epoch: np.ndarray
    address: np.ndarray
    site: np.ndarray
    thread: np.ndarray
    request: np.ndarray


class Traffic:
    """Counts as the journal is emptied."""

    def __init__(self, journal: Journal, threads_per_block: int):
        self._journal, self._threads_per_block = journal, threads_per_block
        self.sites: dict[tuple[int, bool], SiteCount] = {}  # by instruction, and whether in shared memory
        self.arrays: dict[str, dict[int, int]] = {}  # name -> LOAD, STORE or ATOMIC -> accesses
        self.kept: list[Kept] = []
        self.rows_kept = 0

    def count(self, rows: Rows, kind: np.ndarray) -> None:
        """Whole epochs of blocks."""
        requests = form_requests(rows, self._threads_per_block)
        itemsize = rows.itemsize
        # `a[i]` in a function may be in either memory.
        sites, inverse = _dense_numbers(2 * rows.site + (rows.address >= SHARED_BASE))
        accesses = np.bincount(inverse)
        bytes_of_site = np.bincount(inverse, weights=itemsize).astype(np.int64)
        site_of_request = inverse[requests.order[requests.start]]
        lanes = np.diff(np.r_[requests.start, len(requests.order)])
        warp = rows.thread[requests.order[requests.start]] // WARP
        there = np.minimum(WARP, self._threads_per_block - warp * WARP)
        kind_of_site = np.zeros(len(sites), np.int64)
        kind_of_site[inverse] = kind

        number = len(requests.start)
        wanted, sectors, passes = np.zeros(number, np.int64), np.zeros(number, np.int64), np.zeros(number, np.int64)
        in_global = rows.address[requests.order] < SHARED_BASE
        plain = kind[requests.order] != ATOMIC
        self._count_sectors(rows, requests, itemsize, in_global & plain, wanted, sectors)
        self._count_passes(rows, requests, itemsize, ~in_global & plain, passes)
        least = -(-wanted // SECTOR)
        for s in range(len(sites)):
            mine = site_of_request == s
            total = SiteCount(
                int(kind_of_site[s]), bool(sites[s] & 1), int(accesses[s]), int(mine.sum()),
                int(lanes[mine].sum()), int(there[mine].sum()), int(sectors[mine].sum()), int(least[mine].sum()),
                int(wanted[mine].sum()), int(bytes_of_site[s]), int(passes[mine].sum()),
            )  # fmt: skip
            total.worst = self._most_wasteful_request(rows, requests, np.flatnonzero(mine), wanted, sectors, passes)
            key = (int(sites[s]) >> 1, total.shared)
            self.sites.setdefault(key, SiteCount(total.kind, total.shared)).add_counts(total)
        self._count_arrays(rows, kind)
        if self.rows_kept < MOST_ROWS_KEPT:
            request = np.empty(len(rows.address), np.int64)
            request[requests.order] = requests.number
            self.kept.append(Kept(rows.block, rows.epoch, rows.address, rows.site, rows.thread, request))
            self.rows_kept += len(rows.address)

    def kept_of_block(self, block: int) -> Kept | None:
        """What was kept of one block, if anything."""
        pieces = [Kept(*(column[kept.block == block] for column in kept)) for kept in self.kept]
        pieces = [piece for piece in pieces if len(piece.address)]
        return _join_kept(pieces) if pieces else None

    def _count_arrays(self, rows: Rows, kind: np.ndarray) -> None:
        """Counts by the array that begins last before an address; of two at one place, the one noted later."""
        memories = sorted(self._journal.memories, key=lambda m: m.start)
        which = np.searchsorted([m.start for m in memories], rows.address, side="right") - 1
        pairs, counts = np.unique(3 * which + kind, return_counts=True)
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            of_array = self.arrays.setdefault(memories[pair // 3].name, {LOAD: 0, STORE: 0, ATOMIC: 0})
            of_array[pair % 3] += count

    def _count_sectors(self, rows, requests, itemsize, which, wanted, sectors) -> None:
        """Fills in, by request: the different bytes wanted, and the sectors that hold them."""
        at = requests.order[which]
        if not len(at):
            return
        number, address = requests.number[which], rows.address[at]
        order = np.lexsort((address, number))
        number, address, size = number[order], address[order], itemsize[at][order]
        new_request = np.r_[True, number[1:] != number[:-1]]
        new_address = new_request | np.r_[True, address[1:] != address[:-1]]
        np.add.at(wanted, number[new_address], size[new_address])
        first, last = address // SECTOR, (address + size - 1) // SECTOR
        new_sector = new_request | np.r_[True, first[1:] != first[:-1]]
        np.add.at(sectors, number[new_sector], 1)
        np.add.at(sectors, number[last != first], 1)  # an element across two sectors; never so where all are aligned

    def _count_passes(self, rows, requests, itemsize, which, passes) -> None:
        """Fills in, by request, how often shared memory has to be asked.

        Elements of 8 bytes go in two halves of the warp, those of 16 in four quarters: no conflict by itself.
        """
        at = requests.order[which]
        if not len(at):
            return
        words = np.maximum(itemsize[at] // BANK_BYTES, 1)  # of an element
        part = requests.number[which] * 4 + rows.thread[at] % WARP * words // WARP
        first = rows.address[at] // BANK_BYTES
        row = np.repeat(np.arange(len(at)), words)
        word = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(words) - words, words)
        part = part[row]
        order = np.lexsort((word, part))
        part, word = part[order], word[order]
        new = np.r_[True, (part[1:] != part[:-1]) | (word[1:] != word[:-1])]
        per_bank = np.unique(part[new] * BANKS + word[new] % BANKS, return_counts=True)
        parts, start = np.unique(per_bank[0] // BANKS, return_index=True)
        most = np.maximum.reduceat(per_bank[1], start)
        request, first_part = np.unique(parts // 4, return_index=True)
        passes[request] += np.add.reduceat(most, first_part) - np.diff(np.r_[first_part, len(parts)]) + 1

    def _most_wasteful_request(self, rows, requests, mine, wanted, sectors, passes) -> tuple:
        """The request of this site that wastes most: what the report quotes."""
        factor = np.where(passes[mine] > 0, passes[mine], SECTOR * sectors[mine] / np.maximum(wanted[mine], 1))
        r = mine[int(np.argmax(factor))]
        end = requests.start[r + 1] if r + 1 < len(requests.start) else len(requests.order)
        members = requests.order[requests.start[r] : end]
        members = members[np.argsort(rows.thread[members], kind="stable")]
        steps = np.diff(rows.address[members])
        stride = int(steps[0]) if len(steps) and (steps == steps[0]).all() else None
        lanes = len(members)
        block, warp = int(rows.block[members[0]]), int(rows.thread[members[0]] // WARP)
        return float(factor.max()), block, warp, int(wanted[r]), int(sectors[r]), int(passes[r]), lanes, stride


def _join_kept(pieces: list[Kept]) -> Kept:
    """Pieces as one, their requests numbered apart."""
    offsets = np.cumsum([0, *(int(p.request.max()) + 1 for p in pieces)])
    request = np.concatenate([p.request + o for p, o in zip(pieces, offsets, strict=False)])
    return Kept(*(np.concatenate([getattr(p, n) for p in pieces]) for n in Kept._fields[:-1]), request)


def form_requests(rows: Rows, threads_per_block: int) -> Requests:
    """Finds the warp request of every access."""
    _, block = np.unique(rows.block, return_inverse=True)
    lane = block * (-(-threads_per_block // WARP) * WARP) + rows.thread  # numbered through the blocks, whole warps each
    site, inverse = _dense_numbers(2 * rows.site + (rows.address >= SHARED_BASE))
    converged = np.array([s.converged for s in rows.segments], np.int64)[rows.segment]
    converged -= converged.min()
    stretch = converged * len(site) + inverse  # one instruction, between two points where the warp converged
    stretches = int(stretch.max()) + 1

    lane_stretch = lane * stretches + stretch
    order = np.argsort(lane_stretch, kind="stable")
    key = lane_stretch[order]
    start = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
    turn = np.arange(len(key)) - np.repeat(start, np.diff(np.r_[start, len(key)]))  # the k-th time
    request = (lane[order] // WARP * stretches + stretch[order]) * (turn.max() + 1) + turn
    by_request = np.argsort(request, kind="stable")
    order, request = order[by_request], request[by_request]
    start = np.flatnonzero(np.r_[True, request[1:] != request[:-1]])
    number = np.repeat(np.arange(len(start)), np.diff(np.r_[start, len(request)]))
    return Requests(order, start, number)


def _dense_numbers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`np.unique(values, return_inverse=True)` for small numbers, without sorting."""
    there = np.zeros(int(values.max()) + 1, bool)
    there[values] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[values]
