"""A new folder that appears whole, or not at all."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from ..errors import CheckpointError, shown


def path_of_new(out: str | Path) -> Path:
    """The path of a folder that will be made. Raises CheckpointError where none of that name can be."""
    if not isinstance(out, str | Path):
        raise CheckpointError(f"the new folder is named by a text or a Path, not {shown(out)}")
    out = Path(out).expanduser()
    if out.exists() or out.is_symlink():
        raise CheckpointError(f"{out} exists already, and nothing is overwritten: name a folder that does not exist")
    if not out.parent.is_dir():
        raise CheckpointError(f"{out} cannot be written: there is no folder {out.parent}; make it first")
    return out


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
