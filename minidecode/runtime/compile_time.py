"""How long Numba compiles in a generation: once for each machine, since compiled code is kept on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def compile_time(is_compiled: bool) -> Iterator[list[float]]:
    """Yields a list that gets the seconds of each compilation while it is open. is_compiled: whether any op may be.

    Two generations at once see each other's compilations: Numba compiles one function at a time, for all threads.
    """
    seconds: list[float] = []
    if not is_compiled:
        yield seconds
        return
    from numba.core import event

    with event.install_timer("numba:compile", seconds.append):
        yield seconds
