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

from .kernels import hash_of_sources, versions_of_compilers, write_whole


@functools.cache
def measured_library_rows() -> dict[str, int]:
    """How weights are stored -> rows, as measured on the current GPU; empty if it was not measured."""
    try:
        table = json.loads(file_of_library_rows().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    is_table = isinstance(table, dict) and all(type(rows) is int and rows > 0 for rows in table.values())
    return table if is_table else {}


def save_library_rows(table: Mapping[str, int]) -> Path:
    """Writes what was measured on the current GPU into its file. Products of this process follow it, too."""
    file = file_of_library_rows()
    write_whole(file, json.dumps(dict(table)).encode())
    measured_library_rows.cache_clear()
    return file


def file_of_library_rows() -> Path:
    """Where the table of the current GPU lies."""
    from numba.cuda import get_current_device
    from numba.cuda.dispatcher import CUDACache

    text = "\n".join([str(get_current_device().name), hash_of_sources(), versions_of_compilers()])
    folder = Path(CUDACache(file_of_library_rows).cache_path)
    return folder / f"library-rows-{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
