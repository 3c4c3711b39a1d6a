"""A hash of the sources that code is compiled from: code on disk is used as long as it stays the same."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


@functools.cache
def hash_of_sources(patterns: tuple[str, ...]) -> str:
    """A hash of names and contents, not of times: a copy of the package finds the code of the original fresh."""
    _stamps_at_first(patterns)  # before a file is read: what changes meanwhile has changed
    digest = hashlib.sha256()
    for path in _paths(patterns):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def have_sources_changed(patterns: tuple[str, ...]) -> bool:
    """Whether a file was written since `hash_of_sources` was first asked.

    Then this process may run other code than the files hold, or that the hash stands for.
    """
    hash_of_sources(patterns)
    return any(_stamp(path) != stamp for path, stamp in _stamps_at_first(patterns).items())


@functools.cache
def _stamps_at_first(patterns: tuple[str, ...]) -> dict[str, tuple[int, int] | None]:
    return {str(path): _stamp(str(path)) for path in _paths(patterns)}


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _paths(patterns: tuple[str, ...]) -> list[Path]:
    return sorted(path for pattern in patterns for path in PACKAGE.glob(pattern))
