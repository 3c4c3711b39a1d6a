"""Numba's `njit`, whose code on disk is used as long as no source file changes that it may be compiled from.

Numba compares the file of the compiled function alone. But the code of functions that it calls is compiled into it, and
so are numbers that it finds in other files: after an update of one of those, old code would run on.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

REORDER = {"reassoc", "contract"}  # as `fastmath`: sums in any order, so that they run on vectors
PACKAGE = Path(__file__).resolve().parents[2]
SOURCES = (
    "cpu/**/*.py",
    "reference/**/*.py",
    "errors.py",
    "ops.py",
    "device/capture.py",
    "device/cores.py",
    "device/low_precision.py",
    "device/weight_blocks.py",
)  # of functions, and of numbers in them


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """The decorator; with cache=True the index of the compiled-code cache also holds a hash of all `SOURCES`."""

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        if options.get("cache") and hasattr(dispatcher, "_cache"):  # NUMBA_DISABLE_JIT=1 leaves plain functions
            cache = dispatcher._cache
            cache._cache_file._source_stamp = cache._cache_file._source_stamp, hash_of_sources()
            if function.__closure__:  # Numba's key holds what it encloses, which in each process is another object
                cache._index_key = lambda types, codegen: (types, codegen.magic_tuple())
        return dispatcher

    return decorate


@functools.cache
def hash_of_sources() -> str:
    """Of names and contents, not of times: a copy of the package finds the code of the original fresh."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in SOURCES for path in PACKAGE.glob(pattern)):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
