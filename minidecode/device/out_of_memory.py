"""How the end of a device's memory is recognised, and what is done first."""

from __future__ import annotations

import re
import threading
import weakref
from typing import Any

NAMES = ("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "CUBLAS_STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device had no memory left: CuPy's error, or one of the driver's or a library's with such a name.

    The host's MemoryError is none.
    """
    if type(error).__name__ == "OutOfMemoryError" and isinstance(error, MemoryError):
        return True
    return any(name in str(error) for name in NAMES)


def bytes_asked_for(error: BaseException) -> int | None:
    """The bytes that were asked for, where the error says so, as CuPy's does."""
    match = re.search(r"allocating ([\d,]+) bytes", str(error))
    return int(match[1].replace(",", "")) if match else None


class MemoryOfGraphs:
    """The pools of all graphs, until each is empty.

    Since CuPy 14.1 a pool that is dropped while it holds free blocks keeps them until the process ends: 32 MB and more
    for each graph that is given up. So a pool stays here when its graph has gone, is emptied, and is dropped then. An
    array of it may live longer than the graph; its block is free after that, and goes the next time.
    """

    def __init__(self) -> None:
        self._pools: list[tuple[Any, Any]] = []  # (a weak reference to the graph, None if it never came to be; pool)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._pools)

    def add(self, graph: Any, pool: Any) -> None:
        with self._lock:
            self._pools.append((None if graph is None else weakref.ref(graph), pool))

    def give_back_unused(self) -> None:
        """Empties the pools of graphs that are gone."""
        with self._lock:
            for entry in list(self._pools):
                graph, pool = entry
                if graph is None or graph() is None:
                    pool.free_all_blocks()
                    if not pool.total_bytes():
                        self._pools.remove(entry)


MEMORY = MemoryOfGraphs()


def give_back_unused_memory(device: str) -> None:
    """Gives what CuPy's pools hold unused back to the driver, where pools of other graphs can take it."""
    if device == "cuda":
        import cupy

        MEMORY.give_back_unused()
        cupy.get_default_memory_pool().free_all_blocks()
