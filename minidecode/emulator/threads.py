"""The threads of a block, as greenlets: what each waits for, and how barriers and warp operations let them go."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from greenlet import getcurrent, greenlet

from .clocks import NOTHING, Known, merge_knowledge
from .findings import Finding, Stop, threads_in_words, verb_for
from .memory import Memory
from .source import Place, is_written_return, line_of, loop_around_line, place_of_instruction

WARP = 32
ALL_LANES = 0xFFFFFFFF
GRID_BARRIER = "cg.this_grid().sync"
BARRIERS = ("syncthreads", GRID_BARRIER)  # what the names of barriers begin with: no operations of a warp
VOTES = ("ballot_sync", "all_sync", "any_sync", "eq_sync", "match_any_sync", "match_all_sync", "syncthreads_count",
         "syncthreads_and", "syncthreads_or")  # fmt: skip


class Dim3(NamedTuple):
    """A size or an index in three dimensions."""

    x: int
    y: int = 1
    z: int = 1


class Wait(NamedTuple):
    """What a thread waits for: a barrier of the block or the grid, or an operation of its warp (with its mask)."""

    operation: str  # "syncthreads", GRID_BARRIER, "syncwarp", "shfl", "ballot", ...; "spin": only for its next turn
    mask: int
    value: object
    code: object
    offset: int

    @property
    def place(self) -> Place:
        return place_of_instruction(self.code, self.offset)


class Greenlets:
    """Greenlets that run one thread after the other, for to make one takes as long as 20 turns of a thread."""

    def __init__(self):
        self._idle: list[greenlet] = []

    def take_greenlet(self) -> greenlet:
        """A greenlet for a thread: its first `switch(run)` runs the thread."""
        return self._idle.pop() if self._idle else greenlet(_run_threads)

    def give_back(self, glet: greenlet) -> None:
        """Takes back the greenlet of a thread that has come to its end."""
        self._idle.append(glet)

    def clear(self) -> None:
        """Ends those that are idle, which the thread of the process that made them has to do."""
        self._idle.clear()


def _run_threads(run) -> None:
    hub = getcurrent().parent
    while True:
        run = hub.switch(run())


class Thread:
    """One thread: who it is, what it waits for, and what it knows (see clocks.py)."""

    __slots__ = (
        "acquired", "answer", "asked", "block", "clock", "converged", "done", "exit", "fenced", "fenced_block", "glet",
        "index", "known", "lane", "row", "thread_index", "waits", "warp",
    )  # fmt: skip

    def __init__(self, block: Block, index: int, thread_index: Dim3, glet: greenlet):
        self.block, self.index, self.thread_index = block, index, thread_index
        self.warp, self.lane = divmod(index, WARP)
        self.glet: greenlet | None = glet  # None once the thread is done: the greenlet may run another by then
        self.waits: Wait | None = None
        self.answer: object = None
        self.asked: object = None  # its state at its last atomic that changed nothing
        self.done, self.exit = False, None  # exit: the offset of the `return` by which it left
        self.clock, self.row, self.converged = 0, NOTHING, 0
        self.known: Known | None = None
        self.acquired: Known | None = None  # by its atomics; known from its next fence or barrier on
        self.fenced: Known | None = None
        self.fenced_block: Known | None = None

    @property
    def name(self) -> str:
        """How a reader knows it: by its number in a flat block, by its index in others; with its block if several."""
        flat = self.block.shape.y == self.block.shape.z == 1
        number = str(self.index) if flat else str(tuple(self.thread_index))
        return f"thread {number}{self.block.suffix}"

    @property
    def short_name(self) -> str:
        return self.name.removeprefix("thread ").removesuffix(self.block.suffix)


class Block:
    """One block: its threads, its shared memory, and the barriers it has passed."""

    def __init__(
        self, number: int, index: Dim3, shape: Dim3, grid: Dim3, greenlets: Greenlets, is_sample: bool = False
    ):
        self.number, self.index, self.shape, self.is_sample = number, index, shape, is_sample
        flat = grid.y == grid.z == 1
        name = str(index.x) if flat else str(tuple(index))
        self.suffix = f" of block {name}" if grid.x * grid.y * grid.z > 1 else ""
        self.threads = [
            Thread(self, x + shape.x * (y + shape.y * z), Dim3(x, y, z), greenlets.take_greenlet())
            for z in range(shape.z) for y in range(shape.y) for x in range(shape.x)
        ]  # fmt: skip
        self.live = list(self.threads)
        self.left: list[Thread] = []  # since the last barrier
        self.epoch = 0
        self.knows = False  # whether any thread has fenced or taken up something
        self.shuffles = self.votes = 0  # that warps of it have made
        self.shared: dict[object, tuple[Memory, object]] = {}
        self.notes: list[Finding] = []
        self.idle_rounds = 0  # in which no thread came on
        self.asking_rounds = 0  # and none even counted
        self.rng: np.random.Generator | None = None  # under a schedule that separates lanes
        self.spun: list[tuple[Thread, Wait]] = []  # who asked by an atomic in the last round, and changed nothing

    def release(self, kernel) -> bool:
        """Releases complete warp operations, else the block's barrier. False: no thread was released."""
        done = [t for t in self.live if t.done]
        if done:
            self.left += done
            self.live = [t for t in self.live if not t.done]
        operations = {t.waits.operation if t.waits is not None else None for t in self.live}
        self.spun = []
        if operations == {"syncthreads"}:  # as it mostly is
            self.pass_barrier(kernel)
            return True
        if "spin" in operations:
            self.spun = [(t, t.waits) for t in self.live if t.waits is not None and t.waits.operation == "spin"]
        for thread, _ in self.spun:
            thread.waits = None
        freed = self._release_warps() or bool(self.spun)
        if freed or not self.live or any(t.waits is None for t in self.live):
            return True
        if all(t.waits.operation.startswith("syncthreads") for t in self.live):
            self.pass_barrier(kernel)
            return True
        return self.is_at_grid_barrier  # its launch lets it go when all blocks are there

    @property
    def is_at_grid_barrier(self) -> bool:
        """Whether all of its threads wait for those of the other blocks."""
        return bool(self.live) and all(t.waits is not None and t.waits.operation == GRID_BARRIER for t in self.live)

    # The barrier of the block

    def pass_barrier(self, kernel) -> None:
        """Lets all threads go on, if they wait at the same barrier."""
        waits = self.live[0].waits
        if any([t.waits.offset != waits.offset or t.waits.code is not waits.code for t in self.live]):
            self._stop_at_two_barriers([t.waits.place for t in self.live])
        if waits.code is not kernel:  # inside a function: they must have come by the same call
            self._stop_at_two_calls(kernel)
        if self.left:
            self._judge_exits(kernel, waits)
        values = [t.waits.value for t in self.live]
        answer = {
            "syncthreads": lambda: None,
            GRID_BARRIER: lambda: None,
            "syncthreads_count": lambda: sum(map(bool, values)),
            "syncthreads_and": lambda: int(all(values)),
            "syncthreads_or": lambda: int(any(values)),
        }[waits.operation]()
        self.epoch += 1
        self.votes += len({t.warp for t in self.live}) if waits.operation in VOTES else 0
        self.left = []
        converged = max([t.converged for t in self.live]) + 1
        known, fenced, fenced_block = _knowledge_after_barrier(self.live) if self.knows else (None, None, None)
        for thread in self.live:
            thread.waits, thread.answer = None, answer
            thread.clock, thread.row, thread.converged = thread.clock + 1, NOTHING, converged
            thread.known, thread.fenced, thread.fenced_block, thread.acquired = known, fenced, fenced_block, None

    def _stop_at_two_calls(self, kernel) -> None:
        ways = [_call_path(thread.glet.gr_frame, kernel) for thread in self.live]
        if any(way != ways[0] for way in ways):
            first = next(k for k in range(len(ways[0])) if len({way[k : k + 1] for way in ways}) > 1)
            self._stop_at_two_barriers([place_of_instruction(*way[min(first, len(way) - 1)]) for way in ways])

    def _stop_at_two_barriers(self, places_of_threads: list[Place]) -> None:
        by_place: dict[Place, list[str]] = {}
        for thread, place in zip(self.live, places_of_threads, strict=True):
            by_place.setdefault(place, []).append(thread.short_name)
        places = sorted(by_place, key=lambda p: p.line)
        who = "; ".join(f"{threads_in_words(by_place[p])} at {p}" for p in places)
        raise Stop(Finding(
            "barrier",
            f"The threads{self.suffix} wait at different barriers: {who}. A barrier is for the whole block.", places,
            remedy="Move it out of the `if` or the loop.",
        ))  # fmt: skip

    def _judge_exits(self, kernel, waits: Wait) -> None:
        """Threads are gone, and the others wait: an early `return` is a note, a barrier passed by is an error."""
        place = waits.place
        at = self._line_of_barrier(kernel, place)
        early = [t for t in self.left if self._has_left_early(kernel, t, at)]
        skipped = [t for t in self.left if t not in early]
        waiting = threads_in_words([t.short_name for t in self.live])
        if skipped:
            out = Place(place.file, line_of(kernel, skipped[0].exit or 0), kernel.co_name)
            ended = "ended at" if is_written_return(kernel, skipped[0].exit or 0) else "left the kernel after"
            gone = threads_in_words([t.short_name for t in skipped])
            raise Stop(Finding(
                "barrier",
                f"cuda.{waits.operation}() at {place}: {waiting}{self.suffix} {verb_for(self.live, 'wait')} there,"
                f" and {gone} never {verb_for(skipped, 'come')} ({ended} {out}). A barrier is for the whole block.",
                [place, out],
                remedy="Move it out of the `if` or the loop that some threads skip.",
            ))  # fmt: skip
        out = Place(place.file, line_of(kernel, early[0].exit), kernel.co_name)
        gone = threads_in_words([t.short_name for t in early])
        self.notes.append(Finding(
            "early exit",
            f"{gone.capitalize()}{self.suffix} returned at {out}, before the barrier at {place} that the rest of the"
            " block passes. No mistake: a thread that is gone does not count.", [out, place], "note",
        ))  # fmt: skip

    def barrier_passed_by(self, frame) -> str:
        """A sentence about threads that wait at a barrier which the reading thread passed by; "" if none do."""
        waiting = [t for t in self.live if t.waits is not None and t.waits.operation.startswith(BARRIERS)]
        if not waiting or waiting[0].waits.code is not frame.f_code or waiting[0].waits.offset > frame.f_lasti:
            return ""
        who = threads_in_words([t.short_name for t in waiting])
        place = waiting[0].waits.place
        return f" {who.capitalize()} {verb_for(waiting, 'wait')} at the barrier of {place}, which this one passed by."

    def _line_of_barrier(self, kernel, place: Place) -> int:
        """The line of the kernel itself from which the barrier was called."""
        frame = self.live[0].glet.gr_frame
        while frame is not None and frame.f_code is not kernel:
            frame = frame.f_back
        return frame.f_lineno if frame is not None else place.line

    def _has_left_early(self, kernel, thread: Thread, barrier_line: int) -> bool:
        if thread.exit is None:
            return False
        line = line_of(kernel, thread.exit)
        loop = loop_around_line(kernel, line)  # in a loop, what is written later may run earlier
        is_before = line < barrier_line or (loop is not None and loop[0] <= barrier_line <= loop[1])
        return is_written_return(kernel, thread.exit) and is_before

    # Operations of a warp

    def _release_warps(self) -> bool:
        waiting: dict[int, list[Thread]] = {}
        for thread in self.live:
            if thread.waits is not None and not thread.waits.operation.startswith(BARRIERS):
                waiting.setdefault(thread.warp, []).append(thread)
        freed = False
        for warp, threads in waiting.items():
            freed |= self._release_warp(self.threads[warp * WARP : (warp + 1) * WARP], threads)
        return freed

    def _release_warp(self, lanes: list[Thread], waiting: list[Thread]) -> bool:
        operation = waiting[0].waits.operation
        is_whole = len(waiting) == WARP and operation != "activemask"
        if is_whole and all([t.waits.mask == ALL_LANES and t.waits.operation == operation for t in waiting]):
            self._finish_operation(operation, waiting)  # as it mostly is
            return True
        groups: dict[object, list[Thread]] = {}
        for thread in waiting:
            w = thread.waits
            by_site = (w.code, w.offset) if w.operation == "activemask" else None
            groups.setdefault((w.operation, w.mask, by_site), []).append(thread)
        freed = False
        everybody_waits = all(t.done or t.waits is not None for t in lanes)
        for (operation, mask, _), group in groups.items():
            if operation == "activemask":  # all that have come this far together, once no thread runs any more
                complete = everybody_waits
            else:
                complete = len(group) == sum(mask >> t.lane & 1 for t in lanes if not t.done)
            if complete and operation == "activemask" and self.rng is not None:  # any of them may have come first
                order = self.rng.permutation(len(group))[: self.rng.integers(1, len(group) + 1)]
                group = [group[k] for k in sorted(order)]
            if complete:
                self._check_lanes(operation, mask, group, lanes)
                self._finish_operation(operation, group)
                freed = True
        return freed

    def _check_lanes(self, operation: str, mask: int, group: list[Thread], lanes: list[Thread]) -> None:
        gone = [t for t in lanes if t.done and mask >> t.lane & 1]
        if not gone or operation == "activemask":
            return
        place = group[0].waits.place
        if operation == "syncwarp":
            self.notes.append(Finding(
                "early exit",
                f"{threads_in_words([t.short_name for t in gone]).capitalize()}{self.suffix} ended before the"
                f" cuda.syncwarp() at {place} that names them. No mistake: a lane that is gone does not count.",
                [place], "note",
            ))  # fmt: skip
            return
        raise Stop(Finding("warp", absent_lanes_message(operation, mask, group, gone, "ended before it"), [place]))

    def _finish_operation(self, operation: str, group: list[Thread]) -> None:
        self.shuffles += operation.startswith("shfl")
        self.votes += operation in VOTES
        answer = {t.lane: t.waits.value for t in group}
        converged = max(t.converged for t in group) + 1
        row = _knowledge_after_syncwarp(group) if operation == "syncwarp" else None
        if operation == "syncwarp" and self.knows:
            known, fenced, fenced_block = _knowledge_after_barrier(group)
            for thread in group:
                thread.known, thread.fenced, thread.fenced_block, thread.acquired = known, fenced, fenced_block, None
        for thread in group:
            thread.waits, thread.answer, thread.converged = None, answer, converged
            if row is not None:
                thread.row, thread.clock = row, thread.clock + 1

    # No thread can go on

    def stop_at_deadlock(self) -> None:
        """Says who waits for whom, when no thread of the block can go on."""
        for thread in self.live:
            if not thread.waits.operation.startswith(BARRIERS):
                w = thread.waits
                same = [t for t in self.live if t.warp == thread.warp and t.waits[:2] == w[:2]]
                lanes = self.threads[thread.warp * WARP : (thread.warp + 1) * WARP]
                absent = [t for t in lanes if w.mask >> t.lane & 1 and t not in same and not t.done]
                where = absent[0].waits
                waits = verb_for(absent, "wait")
                if where.operation == w.operation:
                    reason = f"{waits} at {where.place} with the mask {where.mask:#x}"
                else:
                    reason = f"{waits} for cuda.{where.operation} at {where.place}"
                message = absent_lanes_message(w.operation, w.mask, same, absent, reason)
                raise Stop(Finding("warp", message, [w.place, where.place]))
        self._stop_at_two_barriers([thread.waits.place for thread in self.live])  # the block's, and the grid's

    def stop_at_spinning(self) -> None:
        """The threads ask by atomics again and again, and nothing changes."""
        spinning, place = [t for t, _ in self.spun], self.spun[0][1].place
        others = [t for t in self.live if t not in spinning]
        message = (
            f"Deadlock: {threads_in_words([t.short_name for t in spinning])}{self.suffix}"
            f" {verb_for(spinning, 'wait')} in a"
            f" loop at {place} for an element that no thread changes any more"
        )
        if others and others[0].waits is not None:
            who = threads_in_words([t.short_name for t in others])
            message += f", while {who} {verb_for(others, 'wait')} at {others[0].waits.place}"
        sample = 'Only a sample of the blocks ran: if it waits for the others, give emulate() blocks="all".'
        raise Stop(Finding("deadlock", message + ".", [place], remedy=sample if self.is_sample else ""))


def _call_path(frame, kernel) -> tuple:
    """The calls by which a thread has come to where it waits, from the kernel inwards, as (code, offset)."""
    way = []
    while frame is not None:
        way.append((frame.f_code, frame.f_lasti))
        if frame.f_code is kernel:
            return tuple(reversed(way))
        frame = frame.f_back
    return ()


def _knowledge_after_barrier(threads: list[Thread]) -> tuple[Known | None, Known | None, Known | None]:
    """After a barrier: what its threads know, and what their next atomics publish to the device and to the block."""
    known = merge_knowledge(piece for t in threads for piece in (t.known, t.acquired))
    return known, merge_knowledge(t.fenced for t in threads), merge_knowledge(t.fenced_block for t in threads)


def absent_lanes_message(operation: str, mask: int, here: list[Thread], absent: list[Thread], reason: str) -> str:
    place, suffix = here[0].waits.place, here[0].block.suffix
    return (
        f"cuda.{operation} at {place} names lanes that do not come (mask {mask:#x}):"
        f" {threads_in_words([t.short_name for t in here])}{suffix} {'is' if len(here) == 1 else 'are'} there,"
        f" {threads_in_words([t.short_name for t in absent])} {reason}."
    )


def _knowledge_after_syncwarp(group: list[Thread]) -> tuple[int, ...]:
    """What lanes know of each other after `syncwarp`: all that any of them knew, and each of each."""
    row = list(map(max, zip(*{t.row for t in group}, strict=True))) if len(group) > 1 else list(group[0].row)
    for thread in group:
        row[thread.lane] = max(row[thread.lane], thread.clock)
    return tuple(row)
