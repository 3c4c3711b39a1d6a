"""How many threads the BLAS has while a generation runs: one for small products, and what a container allows.

A product that two threads share ends when the slower of them does. On a machine with other work the second thread waits
for a core, often for ten milliseconds and more, and the first one spins until it has got it; a product of a few rows
with a matrix that lies in a cache takes a tenth of a millisecond in one thread. So there is little to gain, and a
hundred times that to lose. Large products keep all threads: reading their weights takes both cores.

A BLAS starts a thread per core of the machine, and its threads spin. In a container with a CPU quota they would use it
up, and Linux would stop them all (cores.py). So there it has as many threads as the quota allows, unless the user has
set their number in the environment.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .cores import container_quota, usable_cores
from .weight_blocks import count_numbers

SET_BY_USERS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
SMALL = 2**19  # numbers in a matrix: two megabytes of float32, which stay in a core's cache


def has_small_products(weights: Any) -> bool:
    """Whether no layer multiplies by a matrix of more than `SMALL` numbers."""
    blocks = (*weights.blocks, *(weights.encoder.blocks if weights.encoder else ()))
    return all(count_numbers(w) <= SMALL for block in blocks for w in vars(block).values() if hasattr(w, "layout"))


class _Holders:
    """The limits that generations want at present: the least of them counts; the last to go restores what was there."""

    def __init__(self):
        self.lock, self.limits, self.before = threading.Lock(), [], []

    def add_limit(self, limit: int) -> None:
        with self.lock:
            if not self.limits:
                self.before = [library.get_num_threads() for library in _blas_libraries()]
            self.limits.append(limit)
            _set_threads([min(threads, *self.limits) for threads in self.before])

    def remove_limit(self, limit: int) -> None:
        with self.lock:
            self.limits.remove(limit)
            _set_threads([min([threads, *self.limits]) for threads in self.before])


_holders = _Holders()


def _set_threads(numbers: list[int]) -> None:
    """Gives each library this many threads, and lets go of it.

    threadpoolctl 3.8 listens to one thread at a time, until that lets go. So it does not listen to us while a user of
    it, in another thread, holds a limit of his own.
    """
    for library, threads in zip(_blas_libraries(), numbers, strict=True):
        library.set_num_threads(threads)
        getattr(library, "clear_controlling_thread", int)()  # older ones listen to all


@functools.cache
def _blas_libraries() -> list[Any]:
    """The libraries of NumPy's products whose threads can be set: OpenBLAS, MKL and BLIS, but not macOS's own."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


def _thread_limit(is_small: bool) -> int | None:
    """How many threads the BLAS may have; None for as many as it has."""
    if is_small:
        return 1
    if container_quota() is None or any(name in os.environ for name in SET_BY_USERS):
        return None
    return usable_cores().number


@contextmanager
def few_blas_threads(is_small: bool) -> Iterator[None]:
    """While it is open the BLAS has one thread for small products, and for others as many as a container allows.

    For the whole process, since a BLAS has one setting. Open in several Python threads at once, the least limit holds
    until its thread is through. Products that others make meanwhile may differ in their last bits.
    """
    limit = _thread_limit(is_small)
    if limit is None:
        yield
        return
    _holders.add_limit(limit)
    try:
        yield
    finally:
        _holders.remove_limit(limit)


def _renew_lock() -> None:
    _holders.lock = threading.Lock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
