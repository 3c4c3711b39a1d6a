"""A thread pool whose idle workers spin in compiled code, so that the next work begins at once.

A decode step of GPT-2 multiplies 49 times, for 70 to 300 us each. A thread that sleeps in between takes some 50 us to
wake, and needs the interpreter's lock to begin; then two threads are hardly faster than one. So here a worker stays in
compiled code, without that lock, and looks for more work for about half a millisecond after the last. Only then it
sleeps.

The work lies on a table, an array of whole numbers: which function, its arguments, and for how many tasks it is to be
called. A free thread takes the next task. The thread that wants the work takes tasks too: if no worker comes, since
they sleep or other work has the cores, it does all by itself. When no task is left it closes the table, and goes on as
soon as no worker is inside.

A worker that has seen some work says that it is inside before it looks again whether that work is still open; and the
owner closes it before looking whether somebody is inside. Both are seen in one order by all threads. So the table is
never written while a worker reads it, and no worker writes results that are no longer awaited.

A worker that dies is an error of the generation that finds it: what it had begun may be missing. The table and all its
workers are given up then, and the next generation starts new ones.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from pathlib import Path

import numpy as np

from ...device.capture import CAPTURE
from ...device.cores import worker_threads
from ...errors import WorkerError
from .atomics import add, call, load, pause, store
from .jit import njit

# Places of the table. What threads write while work is open lies 64 bytes apart, in cache lines of its own: the number
# of the work that is open (0: none), the next task, how many workers are inside, how many threads want the table.
OPEN, NEXT, INSIDE, WANTED = 0, 8, 16, 24
TROUBLE = 31  # what a task returned that was not DONE; 0: none
ASLEEP = 32  # 1: a worker sleeps, and has not been woken since
ONLY_NOTED = 33  # 1: work is written down, and does not run
MOST_LOOKS = 34  # so often the owner looks for who is inside before it asks whether they live; 0: without end
NUMBER = 35  # the last number
FUNCTION, TASKS, LENGTH, ARGS, MOST_ARGS = 36, 37, 38, 39, 129  # the work; this many numbers of arguments, from ARGS on
SIZE = ARGS + MOST_ARGS
AWAKE = 500e-6  # seconds that a worker looks for more work before it sleeps
PATIENCE = 300e-6  # seconds that workers may be inside when all tasks are taken
TASK_TAKES = 30e-6  # seconds, about, of a decode step's task
STALL = 1.0  # seconds that somebody may be inside before the owner asks whether they live
DONE, TABLE_IS_TAKEN, FAILED, STALLED, REFUSED, SLEEPING = 1, -1, -2, -3, -4, -5
CALLER_ALONE, SPINNING_WORKERS, ALL_WORKERS = range(3)
WORTH_SHARING = 2**18  # numbers that an op reads: some 100 us
TASKS_PER_THREAD = 4  # at least, where work is large: no thread waits long for the last one
NO_TABLE, NEVER = np.zeros(0, np.int64), 2**62  # where no worker shall come, and for how long
NO_ROOM = "no room for the scores of a head, or for another part of the work that threads share"
OUT_OF_TABLE = "a token or a position is outside of its table"
REMEDY = ": run again, or set NUMBA_NUM_THREADS=1, which needs no worker threads"


def parallel_for(function, tasks, arguments, workers):
    """Runs `function` for this many tasks; with workers, if no other thread has them -> whether the arguments fit.

    function: what `in_tasks` (tasks.py) makes of one. The arrays belong to the caller and stay where they are until all
    is done. Raises MemoryError if a task does. workers: CALLER_ALONE; SPINNING_WORKERS, for work between GEMMs that may
    be the BLAS's, whose own threads spin for some 25 ms and would be in the way; or ALL_WORKERS, which wakes all.
    """
    pool, waited = None if workers == CALLER_ALONE else _shared_pool(), TABLE_IS_TAKEN
    if pool is not None and pool.wake(workers):
        began = time.perf_counter()
        waited = function(tasks, pool.table, *arguments)
        if waited == STALLED:
            waited = pool.wait_for_the_last(arguments)
        pool.adapt_to_wait(waited, time.perf_counter() - began)
    if waited == TABLE_IS_TAKEN:
        began = time.perf_counter()
        waited = function(tasks, NO_TABLE, *arguments)
        if pool is not None:
            pool.adapt_to_lone_run(time.perf_counter() - began)
    if waited == FAILED:
        raise MemoryError(NO_ROOM)
    graph = CAPTURE.get()
    if graph is not None and waited != REFUSED:
        graph.note(function, tasks, arguments, workers)
    return waited != REFUSED


def cut_rows(rows: int, numbers: int) -> tuple[int, int, int]:
    """(tasks, rows of each, which workers take them) of an op that takes row by row, of `numbers` numbers each.

    Many numbers are shared by workers that spin, as they do after a product of this package: a prompt's activations
    take a thread milliseconds. Those of a decode step take less than handing them over.
    """
    if rows * numbers < WORTH_SHARING:
        return 1, rows, CALLER_ALONE
    rows_of_task = -(-rows // (TASKS_PER_THREAD * worker_threads().number))
    return -(-rows // rows_of_task), rows_of_task, SPINNING_WORKERS


def launch_all(launches_X, arrays):
    """Runs work that has been written down, one piece after the other, in one compiled call.

    A piece is whether workers may take tasks, and then as on a table: the function, its number of tasks, how many
    numbers its arguments are, and these. The call ends early where workers were waited for, and where they sleep: they
    are woken, and the rest goes on. Raises IndexError where a token or a position is outside of its table, MemoryError
    and WorkerError.
    """
    first = 0
    while first < len(launches_X):
        pool, table, away, patience = _shared_pool(), NO_TABLE, NEVER, NEVER
        if pool is not None:
            pool.check()
            if pool.away == 0:
                pool.wake_sleeping()
            table, away, patience = pool.table, pool.away, pool.patience
        began = time.perf_counter()
        first, waited, away = _launch_all(launches_X, first, away, patience, table)
        if pool is not None:
            pool.away = away
            if waited == STALLED:
                waited = pool.wait_for_the_last(arrays)
            elif waited > patience:
                pool.adapt_to_wait(waited, time.perf_counter() - began)
        if waited == FAILED:
            raise MemoryError(NO_ROOM)
        if waited == REFUSED:
            raise IndexError(OUT_OF_TABLE)


@functools.cache
def _shared_pool():
    """None where there is but one thread."""
    threads = worker_threads().number
    if threads == 1:
        return None
    with _starting:
        if not _started:
            _started.append(ThreadPool(threads - 1, _measure_looks_per_second()))
        return _started[0]


_starting, _started = threading.Lock(), []


def _measure_looks_per_second(looks=2**12):
    """What a look at an empty table takes differs by processor from half a nanosecond to fifty."""

    def seconds() -> float:
        began = time.perf_counter()
        _work(np.zeros(SIZE, np.int64), looks)
        return time.perf_counter() - began

    seconds()  # compiles, or loads
    return looks / min(seconds() for _ in range(3))


def _forget_pool():
    global _starting
    _starting = threading.Lock()
    _started.clear()
    _shared_pool.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)  # the parent's threads are not there


class ThreadPool:
    """Threads that share one table."""

    def __init__(self, threads: int, looks_a_second: float) -> None:
        self.table = np.zeros(SIZE, np.int64)
        self.table[MOST_LOOKS], self.table[ASLEEP] = int(STALL * looks_a_second), 1
        self.looks_a_second = looks_a_second
        self.patience = int(PATIENCE * looks_a_second)
        self.threads, self.away = threads, 0  # how many there are; for how many tasks they stay away
        self.sleeping = {n: _make_taken_lock() for n in range(threads)}  # each waits for its lock
        self.died = ""  # which of them, and why
        self._kept: tuple = ()  # arrays of work that was given up, into which one of them may still write
        self._is_over, self._threads = False, []
        for n, wake in list(self.sleeping.items()):
            self._threads.append(
                threading.Thread(target=self._run, args=(n, wake), name=f"minidecode-{n}", daemon=True)
            )
            try:
                self._threads[-1].start()
            except RuntimeError as error:  # a limit of the system
                self.end()
                raise WorkerError(f"worker thread minidecode-{n} cannot be started ({error}){REMEDY}") from error

    def wake(self, workers: int) -> bool:
        """Wakes sleeping workers if ALL_WORKERS are wanted. False if none shall come: they lost time, or all sleep.

        Raises WorkerError if one has died.
        """
        self.check()
        if workers == SPINNING_WORKERS and len(self.sleeping) == self.threads:
            return False
        if self.away > 0:
            return False
        if workers == ALL_WORKERS and self.sleeping:
            self.wake_sleeping()
        return True

    def check(self) -> None:
        """Raises WorkerError if one has died."""
        if self.died:
            _forget(self)
            self.end()
            raise WorkerError(self.died + REMEDY)

    def wake_sleeping(self) -> None:
        """In this order: a worker that falls asleep meanwhile is woken, or noted as asleep, or both."""
        self.table[ASLEEP] = 0
        self._wake_all()

    def adapt_to_wait(self, looks: int, seconds: float) -> None:
        """They stay away after a wait that was long, and most of the work's seconds: other work has the cores.

        For as many tasks as could have been done meanwhile.
        """
        if looks > max(self.patience, 0.6 * seconds * self.looks_a_second):
            self.away = int(looks / self.looks_a_second / TASK_TAKES)

    def adapt_to_lone_run(self, seconds: float) -> None:
        """The caller did a piece of work by itself: it counts as the tasks that it took as long as."""
        self.away = max(0, self.away - max(1, int(seconds / TASK_TAKES)))

    def wait_for_the_last(self, arrays: tuple) -> int:
        """The work stalled with somebody inside: waits on while they live -> what `queue_and_run_tasks` returns.

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
        return int(self.table[TROUBLE] or self.table[MOST_LOOKS])

    def end(self) -> None:
        """They end as soon as they are done with what they do."""
        self._is_over = True
        self._wake_all()

    def _wake_all(self) -> None:
        """Wakes all by locks: an interrupt within threading.Event.set may leave it locked, and the next call would
        hang.
        """
        for wake in list(self.sleeping.values()):
            try:
                wake.release()
            except RuntimeError:
                continue  # it has been woken already

    def _run(self, n: int, wake: threading.Lock) -> None:
        try:
            self._work(n, wake)
        except BaseException as error:
            self.died = f"worker thread minidecode-{n} died ({type(error).__name__}: {error})"

    def _work(self, n: int, wake: threading.Lock) -> None:
        while not self._is_over:
            self.sleeping[n] = wake
            self.table[ASLEEP] = 1
            wake.acquire()
            del self.sleeping[n]
            _work(self.table, int(AWAKE * self.looks_a_second))


def _make_taken_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


def _forget(pool: ThreadPool) -> None:
    """The next work starts others."""
    with _starting:
        if pool in _started:
            _started.clear()
            _shared_pool.cache_clear()


def is_running(thread: threading.Thread) -> bool:
    """Whether the system still runs it: Python does not see a thread end inside of compiled code."""
    tasks = Path("/proc/self/task")
    return thread.is_alive() and (not tasks.is_dir() or (tasks / str(thread.native_id)).exists())


@njit(cache=True, nogil=True)
def queue_and_run_tasks(tasks, function, args, table):
    """Queues work, takes tasks of it until none is left, and waits for those who are still inside. No table: alone.

    Returns how often it looked for them, TABLE_IS_TAKEN, or what a task returned that was not DONE. No interrupt comes
    between: this is compiled code. STALLED, with the table still taken, if somebody stays inside for as many looks as
    MOST_LOOKS says.
    """
    if len(args) > MOST_ARGS:
        raise ValueError("work of more arguments than a table has places for")
    if len(table) == 0:
        return _run_alone(tasks, function, args)
    if add(table, WANTED, 1) > 0:
        add(table, WANTED, -1)
        return TABLE_IS_TAKEN
    table[NUMBER] += 1
    table[FUNCTION], table[TASKS], table[LENGTH], table[TROUBLE] = function, tasks, len(args), 0
    for i in range(len(args)):
        table[ARGS + i] = args[i]
    if table[ONLY_NOTED]:
        add(table, WANTED, -1)
        return 0
    store(table, NEXT, 0)
    store(table, OPEN, table[NUMBER])
    _run_tasks(table)
    store(table, OPEN, 0)
    waited, most = 0, table[MOST_LOOKS]
    while load(table, INSIDE) > 0:
        waited += 1
        if waited == most:
            return STALLED
        pause()
    if load(table, TROUBLE):
        waited = load(table, TROUBLE)
    add(table, WANTED, -1)
    return waited


@njit(cache=True, nogil=True)
def _work(table, looks):
    """Helps with all queued work, until this many looks in a row have found none."""
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
            _run_tasks(table)
        add(table, INSIDE, -1)


@njit(cache=True, nogil=True)
def _run_tasks(table):
    """Calls the work's function for one task after the other, until none is left."""
    function, tasks, args = table[FUNCTION], table[TASKS], table[ARGS:].ctypes.data
    task = add(table, NEXT, 1)
    while task < tasks:
        done = call(function, args, task)
        if done != DONE:
            store(table, TROUBLE, done)
        task = add(table, NEXT, 1)


@njit(cache=True, nogil=True)
def _run_alone(tasks, function, args):
    """All tasks, by this thread -> 0, or what one returned that was not DONE."""
    trouble = 0
    for task in range(tasks):
        done = call(function, args.ctypes.data, task)
        if done != DONE:
            trouble = done
    return trouble


@njit(cache=True, nogil=True)
def _launch_all(launches_X, first, away, patience, table):
    """Runs launches from the one that begins at `first` on -> (where the next begins, the last's looks, away).

    All of them, unless one fails, or waits for workers for longer than `patience`, or is for workers who sleep: then
    SLEEPING, and that one is the next. away: this many go without workers.
    """
    while first < len(launches_X):
        is_shared, function, tasks = launches_X[first], launches_X[first + 1], launches_X[first + 2]
        args = launches_X[first + 4 : first + 4 + launches_X[first + 3]]
        waited = TABLE_IS_TAKEN
        if is_shared and away > 0:
            away -= 1
        elif is_shared:
            if load(table, ASLEEP):
                return first, SLEEPING, away
            waited = queue_and_run_tasks(tasks, function, args, table)
        if waited == TABLE_IS_TAKEN:
            waited = _run_alone(tasks, function, args)
        first += 4 + len(args)
        if waited < 0 or waited > patience:
            return first, waited, away
    return first, 0, away
