"""A product's outputs dealt out to threads that wait awake.

A decode step of GPT-2 multiplies 49 times, for 70 to 300 us each. A thread that sleeps in between takes some 50 us to
wake, and needs the interpreter's lock to begin; then two threads are hardly faster than one. So here a helper stays in
compiled code, without that lock, and looks for the next product for about half a millisecond after the last one. Only
then it sleeps.

The product lies on a table, an array of whole numbers. Whoever is free takes the next lot of its outputs. The thread
that wants the product takes lots too: if no helper comes, since they sleep or other work has the cores, it does all by
itself. When no lot is left it closes the product, and goes on as soon as nobody is inside.

A helper that has seen a product says that it is inside before it looks again whether that product is still open; and
the owner closes it before looking whether somebody is inside. Both are seen in one order by all threads. So the table
is never written while a helper reads it, and no helper writes results that nobody waits for.
"""

from __future__ import annotations

import functools
import os
import threading
import time

import numpy as np
from numba import carray, config, njit

from .atomics import add, load, pause, pointer, store
from .few_rows import multiply

# Places of the table. What threads write while a product is open lies 64 bytes apart, in cache lines of its own: the
# open product's number (0: none), the next lot, how many helpers are inside, how many threads want the table.
OPEN, NEXT, INSIDE, WANTED = 0, 8, 16, 24
NUMBER, X, W, SCALE, Y, ROWS, INPUTS, OUTPUTS, IS_OI, LOT, WIDTH, SIZE = range(32, 44)  # the last number; the product
LIKE = {4: np.float32(0), 2: np.uint16(0), 1: np.int8(0)}  # as compiled code has weights, by their width in bytes
AWAKE = 500e-6  # seconds that a helper looks for another product before it sleeps
PATIENCE = 300e-6  # seconds that helpers may be inside when all lots are taken: ten times what a lot takes
LOT_TAKES = 30e-6  # seconds; so many that were waited for cost a product without helpers each
TABLE_IS_TAKEN = -1


def deal_out(x_RX, w_XX, scale_X, is_oi, y_RX, lot):
    """y = x w, times the scale, in lots of so many outputs; with helpers, if no other thread has them.

    All arrays are contiguous and x, scale and y float32: helpers know but their addresses. At least one row. lot: 0 for
    a product that is not worth a helper.
    """
    helpers = _helpers_for(w_XX.itemsize) if lot else None
    if helpers is not None and helpers.come(w_XX.itemsize):
        waited = _own(x_RX, w_XX, scale_X, is_oi, y_RX, lot, helpers.table)
        helpers.were_waited_for(waited)
        if waited != TABLE_IS_TAKEN:
            return
    _own(x_RX, w_XX, scale_X, is_oi, y_RX, lot, np.zeros(SIZE, np.int64))


@functools.cache
def _helpers_for(width):
    """The helpers, once what they call is compiled for weights of that width; None where there is but one thread."""
    if config.NUMBA_NUM_THREADS == 1:
        return None
    _help(np.zeros(SIZE, np.int64), LIKE[width], width, 0)
    with _starting:
        if not _started:
            _started.append(Helpers(config.NUMBA_NUM_THREADS - 1, _looks_a_second(width)))
        return _started[0]


_starting, _started = threading.Lock(), []


def _looks_a_second(width, looks=2**12):
    """What a look at an empty table takes differs by processor from half a nanosecond to fifty."""

    def seconds() -> float:
        began = time.perf_counter()
        _help(np.zeros(SIZE, np.int64), LIKE[width], width, looks)
        return time.perf_counter() - began

    return looks / min(seconds() for _ in range(3))


def _forget_helpers():
    global _starting
    _starting = threading.Lock()
    _started.clear()
    _helpers_for.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)  # the parent's threads are not there


class Helpers:
    """Threads that share one table."""

    def __init__(self, threads: int, looks_a_second: float) -> None:
        self.table = np.zeros(SIZE, np.int64)
        self.looks_a_second = looks_a_second
        self.patience = int(PATIENCE * looks_a_second)
        self.width = 0  # of the weights of the product that they were last called for
        self.away = 0  # for so many products
        self.asleep = {n: threading.Event() for n in range(threads)}
        for n, call in list(self.asleep.items()):
            threading.Thread(target=self._help, args=(n, call), name=f"minidecode-{n}", daemon=True).start()

    def come(self, width: int) -> bool:
        """Calls those who sleep. False if they were in the way, and are to stay away from this product too."""
        if self.away > 0:
            self.away -= 1
            return False
        self.width = width
        if self.asleep:
            for call in list(self.asleep.values()):
                call.set()
        return True

    def were_waited_for(self, looks: int) -> None:
        """They stay away after a long wait: other work has the cores. For as many products as the wait had lots."""
        if looks > self.patience:
            self.away = int(looks / self.looks_a_second / LOT_TAKES)

    def _help(self, n: int, call: threading.Event) -> None:
        while True:
            self.asleep[n] = call
            call.wait()
            call.clear()
            del self.asleep[n]
            width = self.width
            while width != 0:  # until none comes
                width = _help(self.table, LIKE[width], width, int(AWAKE * self.looks_a_second))


@njit(cache=True, nogil=True)
def _own(x_RX, w_XX, scale_X, is_oi, y_RX, lot, table):
    """Lays a product on the table, takes lots of it until none is left, and waits for those who are still inside.

    Returns how often it looked for them, or TABLE_IS_TAKEN. No interrupt comes between: this is compiled code.
    """
    if add(table, WANTED, 1) > 0:
        add(table, WANTED, -1)
        return TABLE_IS_TAKEN
    table[NUMBER] += 1
    table[X], table[W] = x_RX.ctypes.data, w_XX.ctypes.data
    table[SCALE], table[Y] = scale_X.ctypes.data, y_RX.ctypes.data
    table[ROWS], table[INPUTS] = x_RX.shape
    table[OUTPUTS], table[IS_OI], table[WIDTH] = y_RX.shape[1], is_oi, w_XX.itemsize
    table[LOT] = lot if lot else y_RX.shape[1]
    store(table, NEXT, 0)
    store(table, OPEN, table[NUMBER])
    _take_lots(table, w_XX[0, 0])
    store(table, OPEN, 0)
    waited = 0
    while load(table, INSIDE) > 0:
        waited += 1
        pause()
    add(table, WANTED, -1)
    return waited


@njit(cache=True, nogil=True)
def _help(table, like, width, spins):
    """Helps with all products whose weights are as `like`; ends when none has come for so many looks -> 0.

    Ends, too, when weights of another width are on the table -> that width.
    """
    seen = idle = other = 0
    while idle < spins and other == 0:
        number = load(table, OPEN)
        if number == 0 or number == seen:
            idle += 1
            pause()
            continue
        seen, idle = number, 0
        add(table, INSIDE, 1)
        if load(table, OPEN) == number:
            if table[WIDTH] == width:
                _take_lots(table, like)
            else:
                other = table[WIDTH]
        add(table, INSIDE, -1)
    return other


@njit(cache=True, nogil=True)
def _take_lots(table, like):
    """Multiplies lots of the product on the table, until none is left."""
    rows, inputs, outputs, is_oi, lot = table[ROWS], table[INPUTS], table[OUTPUTS], table[IS_OI] != 0, table[LOT]
    x_RX = carray(pointer(table[X], np.float32(0)), (rows, inputs))
    w_XX = carray(pointer(table[W], like), (outputs, inputs) if is_oi else (inputs, outputs))
    scale_X = carray(pointer(table[SCALE], np.float32(0)), (outputs,))
    y_RX = carray(pointer(table[Y], np.float32(0)), (rows, outputs))
    first = add(table, NEXT, 1) * lot
    while first < outputs:
        multiply(x_RX, w_XX, scale_X, is_oi, first, min(first + lot, outputs), y_RX)
        first = add(table, NEXT, 1) * lot
