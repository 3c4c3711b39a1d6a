"""The journal of an output under way: what its records depend on, and where each of them ends.

It lies beside the records, which cannot say so themselves: a text does not tell of which line of the input it is. A
record is written first and noted then. So a process that dies, whenever that is, leaves whole records that are noted,
and behind them at most one that is not.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import shown


class Entry(NamedTuple):
    """A record that is written. Records stand in any order of their lines."""

    line: int  # of the input
    end: int  # bytes up to its end, from the first record's begin
    error: str  # why the line could not be done, if the record says that
    crc32: int  # of all this and of the record

    @classmethod
    def from_record(cls, line: int, end: int, error: str, record: bytes) -> Entry:
        return cls(line, end, error, zlib.crc32(record, zlib.crc32(json.dumps([line, end, error]).encode())))

    def is_right(self) -> bool:
        """Whether all of it is of the right kind, whatever a file says."""
        numbers = (self.line, self.end, self.crc32)
        return isinstance(self.error, str) and all(type(n) is int and 0 <= n < 2**63 for n in numbers)


class Journal:
    """A file of which the first line says what the records depend on, and each of the others is an `Entry`."""

    def __init__(self, path: Path, depends_on: dict[str, Any] | None):
        """depends_on: name -> value, as JSON holds it; None: no run can go on. Nothing is written before `begin`."""
        self.path, self.depends_on = path, json.loads(json.dumps(depends_on))  # as `read_journal` returns it
        self._file, self._size = None, 0

    def begin(self, entries: Iterable[Entry] = ()) -> None:
        """Writes the file anew with these entries: all of it appears, or nothing. Raises OSError."""
        whole = self.path.with_name(f"{self.path.name}.new")
        lines = [json.dumps({"depends_on": self.depends_on}), *map(json.dumps, entries)]
        try:
            with open(whole, "wb") as file:
                file.write("".join(line + "\n" for line in lines).encode())
                file.flush()
                os.fsync(file.fileno())
            os.replace(whole, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(whole)
            raise
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115 (closed by `close`)
        self._size = os.fstat(self._file.fileno()).st_size

    def note(self, entry: Entry) -> None:
        """Adds the entry, or raises what keeps it from that, and then the file is as it was."""
        data = json.dumps(entry).encode() + b"\n"
        try:
            write_all(self._file, data)
        except BaseException:
            with contextlib.suppress(OSError):
                self._file.truncate(self._size)
            raise
        self._size += len(data)

    def close(self, *, remove: bool = False) -> None:
        """Closes the journal. remove: also deletes it, since it is not needed any more."""
        if self._file is not None:
            self._file.close()
        if remove:
            with contextlib.suppress(OSError):
                os.unlink(self.path)


def write_all(file: Any, data: bytes) -> None:
    """All of the data into a file without a buffer, which may take less at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def read_journal(path: Path) -> tuple[dict[str, Any] | None, list[Entry]] | None:
    """(what the records depend on, the entries), but for a last one that is half; None where there is no journal."""
    try:
        first, *lines = path.read_bytes().decode("utf-8").splitlines(keepends=True)
        depends_on = json.loads(first)["depends_on"]
        entries = [Entry(*json.loads(line)) for line in lines if line.endswith("\n")]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    is_right = isinstance(depends_on, dict | None) and all(entry.is_right() for entry in entries)
    return (depends_on, entries) if is_right else None


def whole_records(path: Path, entries: Iterable[Entry]) -> list[Entry]:
    """The entries of the records in the file, up to the first of which a byte is not as it was written."""
    kept, end, size = [], 0, path.stat().st_size
    with open(path, "rb") as file:
        for entry in entries:
            record = file.read(max(0, min(entry.end, size) - end))
            if end + len(record) != entry.end or entry != Entry.from_record(entry.line, entry.end, entry.error, record):
                break
            kept.append(entry)
            end = entry.end
    return kept


def differences_in_words(before: dict[str, Any], now: dict[str, Any], but: str = "") -> list[str]:
    """The differences of two runs' `depends_on`, in words. Of a value known by its hash, only that it has changed.

    but: a name that does not count.
    """
    differences = []
    for name in dict.fromkeys([*before, *now]):
        old, new = before.get(name), now.get(name)
        if old != new and name != but:
            is_hash = any(str(value).startswith(HASH) for value in (old, new))
            differences.append(
                f"the {name:.80} has changed" if is_hash else f"{name:.80} was {shown(old, 300)}, now {shown(new, 300)}"
            )
    return differences


HASH = "hash "  # what a value begins with that is one
