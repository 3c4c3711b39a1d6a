"""Files that appear whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files.lines import path_to_write


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Any]:
    """A file beside `path` that takes its name when all is written; on an error nothing is left.

    A device or a pipe, which cannot be replaced, is written straight away. Raises InputError where none can be written.
    """
    path = path_to_write(path)
    exists = path.exists()
    try:
        if exists and not path.is_file():
            with open(path, "w", encoding="utf-8") as f:
                yield f
            return
        mode = path.stat().st_mode & 0o777 if exists else 0o666 & ~_read_umask()
        descriptor, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    try:
        with open(descriptor, "w", encoding="utf-8") as f:
            yield f
        os.chmod(partial, mode)
        os.replace(partial, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        if isinstance(error, OSError):
            raise InputError(f"{path} cannot be written: {error.strerror}") from None
        raise


def replacement_warning(path: Path) -> str:
    """A warning if the file is there and holds something; "" for any other path."""
    is_there = path.is_file() and path.stat().st_size > 0
    return f"{path} is there already: it will be replaced at the end" if is_there else ""


def _read_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
