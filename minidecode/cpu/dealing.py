"""Work dealt out to threads that wait awake.

A decode step of GPT-2 multiplies 49 times, for 70 to 300 us each. A thread that sleeps in between takes some 50 us to
wake, and needs the interpreter's lock to begin; then two threads are hardly faster than one. So here a helper stays in
compiled code, without that lock, and looks for more work for about half a millisecond after the last. Only then it
sleeps.

The work lies on a table, an array of whole numbers: which function, what it is told, and for how many lots it is to be
called. Whoever is free takes the next lot. The thread that wants the work takes lots too: if no helper comes, since
they sleep or other work has the cores, it does all by itself. When no lot is left it closes the table, and goes on as
soon as nobody is inside.

A helper that has seen some work says that it is inside before it looks again whether that work is still open; and the
owner closes it before looking whether somebody is inside. Both are seen in one order by all threads. So the table is
never written while a helper reads it, and no helper writes results that nobody waits for.

A helper that dies is an error of the generation that finds it: what it had begun may be missing. The table and all its
helpers are given up then, and the next generation starts new ones.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from pathlib import Path

import numpy as np
from numba import config

from ..errors import WorkerError
from .atomics import add, address_of, call, load, pause, store
from .jit import njit

# Places of the table. What threads write while work is open lies 64 bytes apart, in cache lines of its own: the number
# of the work that is open (0: none), the next lot, how many helpers are inside, how many threads want the table.
OPEN, NEXT, INSIDE, WANTED = 0, 8, 16, 24
FAILURES = 31  # lots that raised an error
NUMBER, FUNCTION, LOTS, TOLD, SIZE = 32, 33, 34, 35, 64  # the last number; the work, and from TOLD on what it is told
MOST_LOOKS = 63  # so often the owner looks for who is inside before it asks whether they live; 0: without end
AWAKE = 500e-6  # seconds that a helper looks for more work before it sleeps
PATIENCE = 300e-6  # seconds that helpers may be inside when all lots are taken
LOT_TAKES = 30e-6  # seconds; so many that were waited for cost a piece of work without helpers each
STALL = 1.0  # seconds that somebody may be inside before the owner asks whether they live
DONE, TABLE_IS_TAKEN, FAILED, STALLED = 1, -1, -2, -3
NO_HELPER, AWAKE_ONES, ALL = range(3)
REMEDY = ": run again, or set NUMBA_NUM_THREADS=1, which needs no worker threads"


def deal_out(lay, arrays, function, worth):
    """Runs `function(told, lot)` for all lots; with helpers, if no other thread has them.

    Both functions are compiled. lay(*arrays, address, table) describes the work in numbers and calls `share`; so the
    arrays are its caller's, and stay where they are until all is done. `function` returns DONE, and raises nothing but
    MemoryError, which is raised here. worth: NO_HELPER; AWAKE_ONES, for work between products that may be the BLAS's,
    whose own threads would be in the way (they look for more work for some 25 ms); or ALL, who are called.
    """
    address, helpers = address_of(function), None if worth == NO_HELPER else _helpers()
    waited = TABLE_IS_TAKEN
    if helpers is not None and helpers.come(worth):
        began = time.perf_counter()
        waited = lay(*arrays, address, helpers.table)
        if waited == STALLED:
            waited = helpers.wait_for_the_last(arrays)
        helpers.were_waited_for(waited, time.perf_counter() - began)
    if waited == TABLE_IS_TAKEN:
        waited = lay(*arrays, address, np.zeros(SIZE, np.int64))
    if waited == FAILED:
        raise MemoryError("no room for the scores of a head, or for another part of the work that threads share")


@functools.cache
def _helpers():
    """None where there is but one thread."""
    if config.NUMBA_NUM_THREADS == 1:
        return None
    with _starting:
        if not _started:
            _started.append(Helpers(config.NUMBA_NUM_THREADS - 1, _looks_a_second()))
        return _started[0]


_starting, _started = threading.Lock(), []


def _looks_a_second(looks=2**12):
    """What a look at an empty table takes differs by processor from half a nanosecond to fifty."""

    def seconds() -> float:
        began = time.perf_counter()
        _help(np.zeros(SIZE, np.int64), looks)
        return time.perf_counter() - began

    seconds()  # compiles, or loads
    return looks / min(seconds() for _ in range(3))


def _forget_helpers():
    global _starting
    _starting = threading.Lock()
    _started.clear()
    _helpers.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)  # the parent's threads are not there


class Helpers:
    """Threads that share one table."""

    def __init__(self, threads: int, looks_a_second: float) -> None:
        self.table = np.zeros(SIZE, np.int64)
        self.table[MOST_LOOKS] = int(STALL * looks_a_second)
        self.looks_a_second = looks_a_second
        self.patience = int(PATIENCE * looks_a_second)
        self.threads, self.away = threads, 0  # how many there are; for how many pieces of work they stay away
        self.asleep = {n: threading.Event() for n in range(threads)}
        self.died = ""  # which of them, and why
        self._kept: tuple = ()  # arrays of work that was given up, into which one of them may still write
        self._is_over, self._threads = False, []
        for n, wake in list(self.asleep.items()):
            self._threads.append(
                threading.Thread(target=self._run, args=(n, wake), name=f"minidecode-{n}", daemon=True)
            )
            try:
                self._threads[-1].start()
            except RuntimeError as error:  # a limit of the system
                self.end()
                raise WorkerError(f"worker thread minidecode-{n} cannot be started ({error}){REMEDY}") from error

    def come(self, worth: int) -> bool:
        """Calls those who sleep, if it is worth ALL. False if nobody is to come: they were in the way, or all sleep.

        Raises WorkerError if one has died.
        """
        if self.died:
            _forget(self)
            self.end()
            raise WorkerError(self.died + REMEDY)
        if worth == AWAKE_ONES and len(self.asleep) == self.threads:
            return False
        if self.away > 0:
            self.away -= 1
            return False
        if worth == ALL and self.asleep:
            for wake in list(self.asleep.values()):
                wake.set()
        return True

    def were_waited_for(self, looks: int, seconds: float) -> None:
        """They stay away after a wait that was long, and most of the work's seconds: other work has the cores.

        For as many pieces as the wait had lots.
        """
        if looks > max(self.patience, 0.6 * seconds * self.looks_a_second):
            self.away = int(looks / self.looks_a_second / LOT_TAKES)

    def wait_for_the_last(self, arrays: tuple) -> int:
        """The work stalled with somebody inside: waits on while they live -> how often the owner looked, or FAILED.

        Raises WorkerError if one has died. The table is given up in any case: its owner has left it half-way.
        """
        self._kept = arrays
        _forget(self)
        while self.table[INSIDE] > 0:
            dead = [thread.name for thread in self._threads if not is_running(thread)]
            if dead and self.table[INSIDE] > 0:
                self.end()
                raise WorkerError((self.died or f"worker thread {dead[0]} died inside of compiled code") + REMEDY)
            time.sleep(0.001)
        self.end()
        self._kept = ()
        return FAILED if self.table[FAILURES] else int(self.table[MOST_LOOKS])

    def end(self) -> None:
        """They end as soon as they are done with what they do."""
        self._is_over = True
        for wake in list(self.asleep.values()):
            wake.set()

    def _run(self, n: int, wake: threading.Event) -> None:
        try:
            self._help(n, wake)
        except BaseException as error:
            self.died = f"worker thread minidecode-{n} died ({type(error).__name__}: {error})"

    def _help(self, n: int, wake: threading.Event) -> None:
        while not self._is_over:
            self.asleep[n] = wake
            wake.wait()
            wake.clear()
            del self.asleep[n]
            _help(self.table, int(AWAKE * self.looks_a_second))


def _forget(helpers: Helpers) -> None:
    """The next work starts others."""
    with _starting:
        if helpers in _started:
            _started.clear()
            _helpers.cache_clear()


def is_running(thread: threading.Thread) -> bool:
    """Whether the system still runs it: Python does not see a thread end inside of compiled code."""
    tasks = Path("/proc/self/task")
    return thread.is_alive() and (not tasks.is_dir() or (tasks / str(thread.native_id)).exists())


@njit(cache=True, nogil=True)
def share(lots, function, told, table):
    """Lays work on the table, takes lots of it until none is left, and waits for those who are still inside.

    Returns how often it looked for them, TABLE_IS_TAKEN or FAILED. No interrupt comes between: this is compiled code.
    STALLED, with the table still taken, if somebody stays inside for as many looks as MOST_LOOKS says.
    """
    if add(table, WANTED, 1) > 0:
        add(table, WANTED, -1)
        return TABLE_IS_TAKEN
    table[NUMBER] += 1
    table[FUNCTION], table[LOTS], table[FAILURES] = function, lots, 0
    for i in range(len(told)):
        table[TOLD + i] = told[i]
    store(table, NEXT, 0)
    store(table, OPEN, table[NUMBER])
    _take_lots(table)
    store(table, OPEN, 0)
    waited, most = 0, table[MOST_LOOKS]
    while load(table, INSIDE) > 0:
        waited += 1
        if waited == most:
            return STALLED
        pause()
    if load(table, FAILURES) > 0:
        waited = FAILED
    add(table, WANTED, -1)
    return waited


@njit(cache=True, nogil=True)
def _help(table, looks):
    """Helps with all work on the table, until for so many looks none has come."""
    seen = idle = 0
    while idle < looks:
        number = load(table, OPEN)
        if number == 0 or number == seen:
            idle += 1
            pause()
            continue
        seen, idle = number, 0
        add(table, INSIDE, 1)
        if load(table, OPEN) == number:
            _take_lots(table)
        add(table, INSIDE, -1)


@njit(cache=True, nogil=True)
def _take_lots(table):
    """Calls the work's function for one lot after the other, until none is left."""
    function, lots, told = table[FUNCTION], table[LOTS], table[TOLD:].ctypes.data
    lot = add(table, NEXT, 1)
    while lot < lots:
        if call(function, told, lot) != DONE:
            add(table, FAILURES, 1)
        lot = add(table, NEXT, 1)
