"""A tensor's place in its file, and the checks before a file is opened: what every kind of checkpoint needs."""

from __future__ import annotations

import json
import math
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CheckpointError, words_of

# dtype in the file -> how its bytes are read; bfloat16 is the upper half of a float32
STORED_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
MOST_OF_TEXT = 2**28  # bytes of a file of JSON or merges; the largest tokenizers have about 2**25


@dataclass(frozen=True)
class Stored:
    """A tensor's place in its file."""

    path: Path
    offset: int
    dtype: str
    shape: tuple[int, ...]

    def read(self, dtype: np.dtype) -> np.ndarray:
        """The tensor as `dtype`: a read-only view into the mapped file where that is possible, else a cast copy."""
        count = math.prod(self.shape)
        if count == 0:  # no model has one, and its other dimensions may be too large for NumPy
            raise CheckpointError(f"{self.path}: a tensor of shape {self.shape} holds nothing")
        mapped = np.memmap(self.path, STORED_DTYPES[self.dtype], "r", self.offset, (count,)).view(np.ndarray)
        if self.dtype == "BF16":
            mapped = (mapped.astype(np.uint32) << 16).view(np.float32)
        if mapped.dtype != dtype or not mapped.flags.aligned:
            with np.errstate(over="ignore"):  # a float64 too large becomes infinite, and the scores NaN: told there
                mapped = mapped.astype(dtype)
        return mapped.reshape(self.shape)


def check_regular(path: Path, most: int | None = None) -> None:
    """Raises CheckpointError on a folder, a pipe or a device, whose end may never come, and on more than `most` bytes.

    What is not there, or has an impossible name, is left to the code that opens it.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(status.st_mode):
        kind = "folder" if stat.S_ISDIR(status.st_mode) else "pipe or a device"
        raise CheckpointError(f"{path} cannot be read: it is a {kind}, not a file; put the model's file there")
    if most is not None and status.st_size > most:
        raise CheckpointError(f"{path} has {status.st_size:,} bytes, and at most {most:,} are read: use the right file")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file, or CheckpointError naming the file and what is wrong with it."""
    return _read_json(path, dict)


def read_json_list(path: Path) -> list[Any]:
    """A JSON list, in the same way."""
    return _read_json(path, list)


def _read_json(path: Path, kind: type) -> Any:
    check_regular(path, MOST_OF_TEXT)
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} has no {path.name}: a model folder needs one") from None
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON: {words_of(error)}; download the file again") from None
    if not isinstance(fields, kind):
        what = "null, which is nothing" if fields is None else f"a {type(fields).__name__}"
        wanted = "object" if kind is dict else "list"
        raise CheckpointError(f"{path} should hold a JSON {wanted}, and holds {what}: download the file again")
    return fields
