"""Threads that hand each other work: one reads ahead, others finish behind, and errors reach the thread that waits.

Ctrl-C or a signal may interrupt the caller's thread between any two lines of Python, those of the standard library
among them. So nothing here waits for a word that could be lost. All boxes are queue.SimpleQueue, which is written in C;
queue.Queue and threading.Event are Python. And a thread ends when its work's Lease is gone, also where the
caller did not come to say so: Python 3.13 does not run `finally` for a signal at the end of a loop's body.
What is left is Python's own Thread.start, which a signal can interrupt so that the new thread never runs.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import PipelineError

TICK = 0.1  # seconds after which a thread that waits looks whether it still should
END = object()  # what a thread hands over last
NOTHING_YET = object()  # stands for a batch where the input is slow, so that finished batches go on


class Lease:
    """Work goes on as long as somebody holds this and has not said that it is over."""

    def __init__(self) -> None:
        self.is_over = False

    def watched(self) -> Callable[[], bool]:
        """Whether the work still goes on, for a thread, which must not hold the lease itself."""
        lease = weakref.ref(self)
        return lambda: (held := lease()) is not None and not held.is_over


class Worker(threading.Thread):
    """A thread. If an exception ends it, the exception is the last item that it puts into its box."""

    def __init__(self, name: str, work: Callable[[], None], outbox: queue.SimpleQueue):
        super().__init__(name=name)
        self.work, self.outbox = work, outbox

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.outbox.put(Failure(error))


@dataclass(frozen=True)
class Failure:
    """What ended a thread, on its way to the one that waits for it."""

    error: BaseException


def next_item(box: queue.SimpleQueue, workers: list[Worker]) -> Any:
    """The next item, or NOTHING_YET after a while. Raises what ended a worker; PipelineError if one said nothing."""
    silent = next((w for w in workers if not w.is_alive()), None)  # asked first: what it said is in the box by now
    try:
        item = box.get(timeout=TICK) if silent is None else box.get_nowait()
    except queue.Empty:
        if silent is None:
            return NOTHING_YET
        raise PipelineError(f"the thread {silent.name} ended without a word: what it had taken is lost") from None
    if isinstance(item, Failure):
        try:
            raise item.error
        finally:
            del item  # else the error keeps this frame and this frame the error, and both the caller's lease
    return item


def iterate_ahead(items: Iterable[Any], size: int, call_off: Callable[[], None] | None = None) -> Iterator[Any]:
    """The items, made by a thread that is up to `size` ahead; NOTHING_YET now and then while there is none.

    call_off: what ends the thread's own wait for an item.
    """
    box, room, lease = queue.SimpleQueue(), queue.SimpleQueue(), Lease()
    goes_on = lease.watched()
    for _ in range(size):
        room.put(None)

    def wait_for_room() -> bool:
        """Waits for it; False if the run has ended."""
        while goes_on():
            with contextlib.suppress(queue.Empty):
                room.get(timeout=TICK)
                break
        return goes_on()

    def make_items() -> None:
        for item in items:
            if not wait_for_room():
                return
            box.put(item)
        box.put(END)

    worker = Worker("prefetch", make_items, box)
    try:
        worker.start()
        while (item := next_item(box, [worker])) is not END:
            if item is not NOTHING_YET:
                room.put(None)
            yield item
    finally:
        lease.is_over = True
        room.put(None)  # a thread that waits for it looks up at once
        if call_off:
            call_off()
        _join_threads([worker])


def apply_in_threads(function: Callable[[Any], Any], items: Iterable[Any], threads: int) -> Iterator[Any]:
    """function(item) of each, by threads, while the caller's makes the next item; in the order in which they end.

    At most threads + 1 items are under way. None is taken while one is under way that came 2 (threads + 1) items before
    it: a caller that puts them in order holds no more than these. If the items break off, by an interrupt too, what is
    under way is handed out before that is raised.
    """
    most = threads + 1
    inbox, outbox, lease = queue.SimpleQueue(), queue.SimpleQueue(), Lease()
    goes_on = lease.watched()

    def do_tasks() -> None:
        while goes_on():
            try:
                task = inbox.get(timeout=TICK)
            except queue.Empty:
                continue
            if task is END:
                return
            number, item = task
            outbox.put((number, function(item)))

    workers = [Worker(f"post-process {i + 1}", do_tasks, outbox) for i in range(threads)]
    under_way: dict[int, None] = {}  # their numbers, the earliest first
    taken, items, broken_off = 0, iter(items), None

    def is_full() -> bool:
        return len(under_way) == most or (bool(under_way) and taken - next(iter(under_way)) == 2 * most)

    try:
        for worker in workers:
            worker.start()
        while True:
            try:
                item = next(items)
            except StopIteration:
                break
            except BaseException as error:
                broken_off = error
                break
            if item is not NOTHING_YET:
                inbox.put((taken, item))
                under_way[taken] = None
                taken += 1
            while is_full() or not outbox.empty():
                if (done := next_item(outbox, workers)) is not NOTHING_YET:
                    del under_way[done[0]]
                    yield done[1]
        while under_way:
            if (done := next_item(outbox, workers)) is not NOTHING_YET:
                del under_way[done[0]]
                yield done[1]
        if broken_off is not None:
            raise broken_off
    finally:
        broken_off = None  # the error keeps this frame, which would keep the error, and with it the lease of `items`
        lease.is_over = True
        for _ in workers:
            inbox.put(END)
        _join_threads(workers)


def _join_threads(workers: list[Worker]) -> None:
    """Waits for those that run; one that an interrupt has left in the middle of its start ends by itself."""
    for worker in workers:
        if worker.is_alive():
            worker.join()
