"""Two accesses to one element, at least one of them a write, by two threads that nothing orders: a data race.

Within a block each epoch is looked at by itself, for a barrier orders epochs. NumPy sorts the accesses by element and
sets aside the elements that two threads touch with a write among them: in a kernel without races hardly any. Those are
gone through one access at a time, each compared with the last write and the reads since (as FastTrack does), which is
linear in the accesses. Elements of several sizes over one memory are cut into the pieces that they share. Between
blocks nothing is ordered but by fences, atomics and barriers of the grid: what each block did to global memory is kept,
one row per element and kind, and looked at when the launch is over.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .arithmetic import wrap_integer
from .findings import Finding
from .journal import Journal, Rows
from .memory import ATOMIC, LOAD, SHARED_BASE, SIZE_CODES, STORE
from .source import is_guarded_by_thread_index
from .threads import WARP

MOST_RACES_PER_CELL = 4  # of one element in one epoch; more say nothing new
MOST_WRITERS = 3  # of the same value, that a later access is compared with
MOST_CELLS_KEPT = 10_000  # of one race, for its picture
MOST_CELLS_BETWEEN_BLOCKS = 20_000  # that are gone through one by one
VERBS = {LOAD: "reads", STORE: "writes", ATOMIC: "changes (atomically)"}


class Access(NamedTuple):
    """One access, with what its thread knew."""

    address: int
    itemsize: int
    site: int
    kind: int
    segment: object  # journal.Segment
    value: object

    @property
    def thread(self):
        return self.segment.thread

    @property
    def epoch(self) -> int:
        return self.segment.epoch


def is_ordered(before: Access, after: Access) -> bool:
    """Whether anything orders `before` before `after`, which ran later."""
    one, two = before.thread, after.thread
    if one is two:
        return True
    if one.block is two.block:
        if before.epoch != after.epoch:
            return before.epoch < after.epoch
        if one.warp == two.warp and after.segment.row[one.lane] >= before.segment.clock:
            return True
    known = after.segment.known
    return known is not None and known.covers(one.block.number, one.index, before.epoch, before.segment.clock)


@dataclass
class Race:
    """All races of one pair of sites, by the first that was met."""

    first: Access
    second: Access
    same_value: bool
    both_change: bool  # each thread reads the element and writes it
    count: int
    cells: set[tuple[int, int, int]] = field(default_factory=set)  # (block, epoch, address) on either side


class Races:
    """Collects races over a launch."""

    def __init__(self, journal: Journal, has_blocks: bool):
        self._journal, self._has_blocks = journal, has_blocks
        self.by_key: dict[object, Race] = {}
        self._kept: list[_Summary] = []
        self._updating: tuple[list, set] = ([], set())  # accesses to an element, and the threads that update it
        self.left_out = 0  # elements that several blocks touch, and that were not gone through

    # Within a block

    def find_within_blocks(self, rows: Rows, kind: np.ndarray) -> None:
        """Whole epochs of blocks."""
        periods, period = np.unique(rows.block * (int(rows.epoch.max()) + 1) + rows.epoch, return_inverse=True)
        address, row = _cut_into_pieces(rows.address, rows.itemsize)
        cell = address * len(periods) + period[row]  # an element in one epoch of one block
        order = np.argsort(cell, kind="stable")
        starts, ends = _bounds_of_groups(cell[order])
        order = row[order]
        for k in _conflicting_groups(rows.thread[order], kind[order], starts):
            self._find_races_of_element_in_block(
                [self._make_access(rows, kind, row) for row in order[starts[k] : ends[k]].tolist()]
            )
        if self._has_blocks:
            self._note_first_and_last(rows, order, starts, kind)

    def _make_access(self, rows: Rows, kind: np.ndarray, row: int) -> Access:
        segment = rows.segments[rows.segment[row]]
        columns = (int(column[row]) for column in (rows.address, rows.itemsize, rows.site, kind))
        return Access(*columns, segment, rows.values.get(row))

    def _find_races_of_element_in_block(self, accesses: list[Access]) -> None:
        """One element's accesses in an epoch of a block, in the order in which they ran.

        Of the writes those are kept that nothing orders before the newest: writers of the same value, for others are
        races already.
        """
        writes, reads, atomics, races, joined = [], {}, {}, 0, {}
        for k, access in enumerate(accesses):
            against = list(writes)
            if access.kind != LOAD:
                against += reads.values()
            if access.kind != ATOMIC:  # after an atomic of its own, a thread comes after the atomics before that
                since = joined.get(access.thread, -1)
                against += [earlier for place, earlier in atomics.values() if place > since]
            for earlier in against:
                if not is_ordered(earlier, access):
                    races += self._count_race(earlier, access, accesses)
                    if races >= MOST_RACES_PER_CELL:
                        return
            if access.kind == STORE:
                unordered = [write for write in writes if not is_ordered(write, access)]
                writes, reads, atomics = [*unordered[-MOST_WRITERS:], access], {}, {}
            elif access.kind == LOAD:
                reads[access.thread.index] = access
            else:
                atomics[access.thread.index], joined[access.thread] = (k, access), k

    def _count_race(self, first: Access, second: Access, accesses: list[Access]) -> bool:
        """Counts the race, among all accesses to its element. False where it is none: both write the same value."""
        memory = self._journal.array_holding(first.address, first.itemsize)
        is_one_element = (first.address, first.itemsize) == (second.address, second.itemsize)
        both_store = first.kind == second.kind == STORE
        same = both_store and is_one_element and _leave_the_same_bits(first.value, second.value, memory.dtype)
        sides = sorted((str(self._journal.place_of_site(a.site)), a.kind) for a in (first, second))
        between_blocks = first.thread.block is not second.thread.block
        both_change = {first.thread, second.thread} <= self._threads_that_update(accesses)
        key = (memory.name, *sides, same, same and both_change, between_blocks)
        race = self.by_key.get(key)
        if race is None:
            race = self.by_key[key] = Race(first, second, same, both_change, 0)
        race.count += 1
        if len(race.cells) < MOST_CELLS_KEPT:
            race.cells |= {(a.thread.block.number, a.epoch, a.address) for a in (first, second)}
        if not between_blocks and _share_a_warp(race.first, race.second) and not _share_a_warp(first, second):
            race.first, race.second = first, second  # the pair that only the block's barrier can order says more
        return not same

    def _threads_that_update(self, accesses: list[Access]) -> set:
        """The threads that both read the element and write it; of each list of accesses found once."""
        if self._updating[0] is not accesses:
            threads = [{a.thread for a in accesses if a.kind == kind} for kind in (LOAD, STORE)]
            self._updating = accesses, threads[0] & threads[1]
        return self._updating[1]

    # Between blocks

    def _note_first_and_last(self, rows: Rows, order: np.ndarray, starts: np.ndarray, kind: np.ndarray) -> None:
        """What blocks did to global memory: per element and kind the first access and the last; all, if any fences.

        Of stores also the first of another value than the first: else they may all look like one number.
        """
        cell = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(order)]))
        in_global = rows.address[order] < SHARED_BASE
        order, cell = order[in_global], cell[in_global]
        if not len(order):
            return
        key = (cell * 3 + kind[order]) * SIZE_CODES + np.log2(rows.itemsize[order]).astype(np.int64)
        if any(s.thread.block.knows for s in rows.segments):
            key = key * len(rows.segments) + rows.segment[order]
        _, first, group, sizes = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
        last = len(key) - 1 - np.unique(key[::-1], return_index=True)[1]
        between = np.flatnonzero((sizes[group] > 2) & (kind[order] == STORE))
        others = _first_of_another_value([(group[k], rows.values[order[k]]) for k in between.tolist()])
        chosen = np.unique(order[np.r_[first, last, between[others]]])
        columns = [
            column[chosen] for column in (rows.block, rows.address, rows.itemsize, rows.site, kind, rows.segment)
        ]
        values = {r: rows.values[row] for r, row in enumerate(chosen.tolist()) if row in rows.values}
        self._kept.append(_Summary(*columns, rows.segments, values))

    def find_between_blocks(self) -> None:
        """At the end of the launch: every element that several blocks touched."""
        kept, self._kept = self._kept, []
        if not kept:
            return
        sizes = [len(s.address) for s in kept]
        address, kind = np.concatenate([s.address for s in kept]), np.concatenate([s.kind for s in kept])
        source = np.repeat(np.arange(len(kept)), sizes)
        row = np.concatenate([np.arange(n) for n in sizes])
        block = np.concatenate([s.block for s in kept])
        piece, access = _cut_into_pieces(address, np.concatenate([s.itemsize for s in kept]))
        order = np.argsort(piece, kind="stable")
        starts, ends = _bounds_of_groups(piece[order])
        order = access[order]
        conflicts = _conflicting_groups(block[order], kind[order], starts)
        self.left_out = max(0, len(conflicts) - MOST_CELLS_BETWEEN_BLOCKS)
        for k in conflicts[:: max(1, -(-len(conflicts) // MOST_CELLS_BETWEEN_BLOCKS))]:  # evenly, if too many
            self._find_races_of_element_between_blocks(
                [kept[source[r]].access(int(row[r])) for r in order[starts[k] : ends[k]].tolist()]
            )

    def _find_races_of_element_between_blocks(self, accesses: list[Access]) -> None:
        """One element, touched by several blocks: pairs of two blocks that hold a write, or an atomic and a read."""
        accesses, races = _thin_out_stores(accesses), 0
        for k, later in enumerate(accesses):
            own_atomics = [j for j in range(k) if accesses[j].kind == ATOMIC and accesses[j].thread is later.thread]
            since = max(own_atomics, default=-1)
            for j, earlier in enumerate(accesses[:k]):
                kinds = {earlier.kind, later.kind}
                if earlier.thread.block is later.thread.block or kinds in ({LOAD}, {ATOMIC}):
                    continue
                if earlier.kind == ATOMIC and j < since:
                    continue  # after an atomic of its own, a thread comes after the atomics before that
                if not is_ordered(earlier, later) and not is_ordered(later, earlier):
                    races += self._count_race(earlier, later, accesses)
                    if races >= MOST_RACES_PER_CELL:
                        return

    # What is said

    def findings(self) -> list[Finding]:
        races = sorted(self.by_key.values(), key=lambda r: (r.same_value, -r.count))
        findings = [self._make_finding(race) for race in races]
        if self.left_out:
            findings.append(Finding(
                "limit", f"{self.left_out:,} elements that several blocks touch were not looked at for races: too"
                " many.", [], "note", remedy="Launch fewer blocks, or emulate() a sample (blocks=8).",
            ))  # fmt: skip
        return findings

    def _make_finding(self, race: Race) -> Finding:
        first, second = race.first, race.second
        element = self._element_in_words(first)
        if (first.address, first.itemsize) != (second.address, second.itemsize):
            element += f" and {self._element_in_words(second)}, which share bytes"
        places = [self._journal.place_of_site(a.site) for a in (first, second)]
        sides = sorted(zip((first, second), places, strict=True), key=lambda s: (s[0].kind, s[0].thread.index))
        who = ", ".join(f"{a.thread.name} {VERBS[a.kind]} it ({p.in_words(self._journal.kernel)})" for a, p in sides)
        if race.same_value:
            more = f" {race.count - 1:,} more like it." if race.count > 1 else ""
            if race.both_change:
                why = "both the same value here. Each also reads it: on a GPU an update may be lost."
            else:
                why = "both the same value. No mistake: the last write changes nothing."
            message = f"{element}: {who}, {why}{more}"
            return Finding("same value", message, places, "note", {"race": race})
        more = f"; {race.count - 1:,} more like it" if race.count > 1 else ""
        both = " Both change it." if race.both_change else ""
        message = f"{element}: {who}, {_why_unordered(first, second)}. A right answer is luck{more}.{both}"
        remedy = self._remedy_in_words(first, second) + " To add up, use cuda.atomic.add." * race.both_change
        detail = {"race": race, "element": element, "array": element.partition("[")[0]}
        return Finding("race", message, places, "error", detail, remedy)

    def _remedy_in_words(self, first: Access, second: Access) -> str:
        """What would have ordered these two."""
        one, two = first.thread, second.thread
        if one.block is not two.block:
            return "Two launches order them, or cuda.threadfence() and an atomic that the other block reads."
        if ATOMIC in (first.kind, second.kind):
            return "cuda.syncthreads() is missing, or an atomic on the other side."
        if one.warp != two.warp or self._memory_of(first) in self._shared_by_warps():
            return "cuda.syncthreads() is missing."
        if len(one.block.threads) <= WARP:
            return "cuda.syncwarp() or cuda.syncthreads() is missing."
        (code, offset), (other, other_offset) = (
            self._journal.bases.code_and_offset_of_site(a.site) for a in (first, second)
        )
        if code is other and is_guarded_by_thread_index(code, offset, other_offset):
            return "cuda.syncwarp() is missing: some threads of the block never come there."
        return "cuda.syncthreads() is missing, or, for one warp alone, cuda.syncwarp()."  # other warps may share it

    def _element_in_words(self, access: Access) -> str:
        return self._journal.array_holding(access.address, access.itemsize).element(access.address)

    def _memory_of(self, access: Access) -> str:
        return self._journal.array_holding(access.address).name

    def _shared_by_warps(self) -> set[str]:
        """Arrays for which threads of different warps of a block race: only its barrier orders those."""
        pairs = [(r.first, r.second) for r in self.by_key.values() if not r.same_value]
        return {self._memory_of(a) for a, b in pairs if a.thread.block is b.thread.block and not _share_a_warp(a, b)}


class _Summary(NamedTuple):
    """What some blocks did to global memory."""

    block: np.ndarray
    address: np.ndarray
    itemsize: np.ndarray
    site: np.ndarray
    kind: np.ndarray
    segment: np.ndarray
    segments: list
    values: dict[int, object]

    def access(self, row: int) -> Access:
        columns = (int(column[row]) for column in (self.address, self.itemsize, self.site, self.kind))
        return Access(*columns, self.segments[self.segment[row]], self.values.get(row))


def _first_of_another_value(stores: list[tuple[int, object]]) -> list[int]:
    """The places of stores (group, value): the first in each group whose value is not that of the group's first one."""
    first, places = {}, {}
    for place, (group, value) in enumerate(stores):
        if value != first.setdefault(group, value):
            places.setdefault(group, place)
    return list(places.values())


def _cut_into_pieces(address: np.ndarray, itemsize: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each access cut wherever another one begins within it: (where the pieces begin, the access of each).

    Two accesses share a piece if they share bytes. Where no elements of several sizes overlap, which is nearly always,
    each access is one piece.
    """
    whole = address, np.arange(len(address))
    if len(address) == 0 or ((itemsize[0] == itemsize).all() and not (address % itemsize[0]).any()):
        return whole
    begins, inverse = np.unique(address, return_inverse=True)
    longest = np.zeros(len(begins), np.int64)
    np.maximum.at(longest, inverse, itemsize)
    if (begins[:-1] + longest[:-1] <= begins[1:]).all():
        return whole
    count = np.searchsorted(begins, address + itemsize) - inverse
    access = np.repeat(whole[1], count)
    within = np.arange(len(access)) - np.repeat(np.cumsum(count) - count, count)
    return begins[inverse[access] + within], access


def _bounds_of_groups(sorted_keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of each run of equal keys: the first index, and one past the last."""
    starts = np.flatnonzero(np.r_[True, sorted_keys[1:] != sorted_keys[:-1]])
    return starts, np.r_[starts[1:], len(sorted_keys)]


def _conflicting_groups(who: np.ndarray, kind: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The groups with several actors and a write among them, or atomics beside plain reads."""
    several = np.minimum.reduceat(who, starts) != np.maximum.reduceat(who, starts)
    kinds = np.bitwise_or.reduceat(1 << kind, starts)
    return np.flatnonzero(several & ((kinds & 1 << STORE > 0) | (kinds == (1 << ATOMIC | 1 << LOAD))))


def _share_a_warp(one: Access, two: Access) -> bool:
    return one.thread.warp == two.thread.warp


def _thin_out_stores(accesses: list[Access]) -> list[Access]:
    """Stores of one value by two blocks at most: a thousand blocks that set the same flag say nothing new."""
    seen, kept = defaultdict(set), []
    for access in accesses:
        if access.kind == STORE and access.segment.known is None:
            blocks = seen[access.site, str(access.value)]
            if len(blocks) == 2 and access.thread.block.number not in blocks:
                continue
            blocks.add(access.thread.block.number)
        kept.append(access)
    return kept


def _why_unordered(first: Access, second: Access) -> str:
    if first.thread.block is not second.thread.block:
        return "and nothing orders blocks of one launch"
    shuffled = second.segment.converged != first.segment.converged and second.segment.row == first.segment.row
    is_in_a_warp = _share_a_warp(first, second) and ATOMIC not in (first.kind, second.kind)
    return "no barrier between" + " (a shuffle or a vote orders no memory)" * (shuffled and is_in_a_warp)


def _leave_the_same_bits(one, two, dtype: np.dtype) -> bool:
    """Whether two stores leave the same bits in the array: 0.0 and -0.0 differ, a NaN equals its copy."""
    try:
        stored = np.array([one, two], object).astype(dtype)
    except OverflowError:
        stored = np.array([wrap_integer(one, dtype), wrap_integer(two, dtype)])
    return stored[0].tobytes() == stored[1].tobytes()
