"""From how many rows the library's product is faster than kernels for few rows: measured, a table for each device.

`minidecode precompile --device cuda` measures it (bench/library_rows.py). It lies in the folder of compiled code. Its
name holds a hash of the device, the kernels' sources and the versions, so other kernels need a table of their own.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from .kernels import SOURCES, folder_of_compiled, versions_of_compilers, write_whole
from .sources import hash_of_sources


@functools.cache
def measured_library_rows() -> dict[str, int]:
    """How weights are stored -> rows, as measured on the current GPU; empty if it was not measured."""
    file = file_of_library_rows()
    try:
        table = json.loads(file.read_text(encoding="utf-8")) if file is not None else {}
    except (OSError, ValueError):
        return {}
    is_table = isinstance(table, dict) and all(type(rows) is int and rows > 0 for rows in table.values())
    return table if is_table else {}


def save_library_rows(table: Mapping[str, int]) -> Path | None:
    """Writes what was measured on the current GPU into its file, if there can be one; products then follow it."""
    file = file_of_library_rows()
    if file is not None:
        write_whole(file, json.dumps(dict(table)).encode())
        measured_library_rows.cache_clear()
    return file


def file_of_library_rows() -> Path | None:
    """The file with the table of the current GPU; None if no folder is writable."""
    from numba.cuda import get_current_device

    text = "\n".join([str(get_current_device().name), hash_of_sources(SOURCES), versions_of_compilers()])
    folder = folder_of_compiled(file_of_library_rows)
    return folder and folder / f"library-rows-{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
