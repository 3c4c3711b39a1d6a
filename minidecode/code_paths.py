"""Which code the calls of an op ran, where an op chooses: its own compiled loops, the BLAS, or NumPy.

An op calls `ran` where it calls that code, and nowhere else; so the receipt counts what ran, and not what was meant to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

CODE_PATHS = COMPILED, BLAS, BLAS_CAST, NUMPY = "compiled", "BLAS", "BLAS on cast weights", "NumPy"
_PATHS: ContextVar[dict[str, int] | None] = ContextVar("code_paths", default=None)


def ran(path: str) -> None:
    """Counts a call of that code for the op that is running in this thread."""
    paths = _PATHS.get()
    if paths is not None:
        paths[path] = paths.get(path, 0) + 1


@contextmanager
def counted_in(paths: dict[str, int]) -> Iterator[None]:
    """Within it, in this thread alone, calls are counted in this dictionary."""
    token = _PATHS.set(paths)
    try:
        yield
    finally:
        _PATHS.reset(token)
