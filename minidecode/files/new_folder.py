"""A new folder that appears whole, or not at all."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from ..errors import CheckpointError


def check_new(out: Path) -> None:
    """Raises CheckpointError where a folder of that name cannot be made."""
    if out.exists() or out.is_symlink():
        raise CheckpointError(f"{out} exists already, and nothing is overwritten: name a folder that does not exist")
    if not out.parent.is_dir():
        raise CheckpointError(f"{out} cannot be written: there is no folder {out.parent}; make it first")


@contextlib.contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A folder beside `out` that takes its name when all is written; on an error nothing is left."""
    partial = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
    try:
        partial.mkdir()
        yield partial
        partial.rename(out)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError):
            raise CheckpointError(f"{out} cannot be written: {error}") from None
        raise
