"""How many threads the BLAS has while a generation runs: one, where a layer's products are small.

A product that two threads share ends when the slower of them does. On a machine with other work the second thread waits
for a core, often for ten milliseconds and more, and the first one spins until it has got it; a product of a few rows
with a matrix that lies in a cache takes a tenth of a millisecond in one thread. So there is little to gain, and a
hundred times that to lose. Large products keep all threads: reading their weights takes both cores.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SMALL = 2**19  # numbers in a matrix: two megabytes of float32, which stay in a core's cache


def products_are_small(weights: Any) -> bool:
    """Whether no layer multiplies by a matrix of more than `SMALL` numbers."""
    blocks = (*weights.blocks, *getattr(getattr(weights, "encoder", None), "blocks", ()))
    return all(w.data.size <= SMALL for block in blocks for w in vars(block).values() if hasattr(w, "layout"))


class _Holders:
    """Who wants one thread at present: the first to come sets it, the last to go gives back what was there."""

    def __init__(self):
        self.lock, self.count, self.before = threading.Lock(), 0, []

    def come(self) -> None:
        with self.lock:
            self.count += 1
            if self.count == 1:
                self.before = [library.get_num_threads() for library in _libraries()]
                _tell([1] * len(self.before))

    def go(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                _tell(self.before)


_holders = _Holders()


def _tell(numbers: list[int]) -> None:
    """Gives each library so many threads, and lets go of it.

    threadpoolctl 3.8 listens to one thread at a time, until that lets go. So it does not listen to us while a user of
    it, in another thread, holds a limit of his own.
    """
    for library, threads in zip(_libraries(), numbers, strict=True):
        library.set_num_threads(threads)
        getattr(library, "clear_controlling_thread", int)()  # older ones listen to all


@functools.cache
def _libraries() -> list[Any]:
    """What does NumPy's products, as far as it lets itself be told: OpenBLAS, MKL and BLIS do, macOS's own does not."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


@contextmanager
def one_blas_thread(wanted: bool) -> Iterator[None]:
    """While it is open the BLAS has one thread, if that is wanted: in all threads of the process, for it knows no other
    way. Open in several threads at once, it stays so until the last of them is through."""
    if not wanted:
        yield
        return
    _holders.come()
    try:
        yield
    finally:
        _holders.go()


def _renew_lock() -> None:
    _holders.lock = threading.Lock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
