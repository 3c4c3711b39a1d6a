"""A hash of the sources that code is compiled from: code on disk is used as long as it stays the same."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


@functools.cache
def hash_of_sources(patterns: tuple[str, ...]) -> str:
    """A hash of names and contents, not of times: a copy of the package finds the code of the original fresh."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in patterns for path in PACKAGE.glob(pattern)):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
