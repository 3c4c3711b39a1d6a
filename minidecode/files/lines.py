"""Many lines in, many records out: files that are read as they come, and written so that no record is ever half."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import select
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..errors import InputError, quoted
from .journal import Entry, Journal, differences_in_words, read_journal, whole_records, write_all

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None

BOM = b"\xef\xbb\xbf"
LONGEST = 2**26  # bytes of a line: no prompt is as long, but a file without line breaks would fill the memory
PATIENCE = 0.1  # seconds of waiting for a pipe, before somebody may call it off


def path_of_prompts(arguments: list[str], path: Path | None, jsonl: bool, what: str = "prompt") -> Path | None:
    """The file that prompts are read from, - for standard input, or None if the arguments are prompts themselves.

    jsonl: whether that was said of it. what: how the command calls them. Raises InputError unless it is one of the two.
    """
    if "-" in arguments:
        if len(arguments) > 1 or path is not None:
            raise InputError(f"- reads all {what}s from standard input: give it alone")
        arguments, path = [], Path("-")
    if bool(arguments) == bool(path):
        raise InputError(f"give a {what}, or --input FILE, or - for standard input" if path is None else
                         f"give {what}s as arguments or by --input, not both")  # fmt: skip
    if arguments and jsonl:
        raise InputError(f"--jsonl is for files: the {what}s here are arguments; leave it out, or say --input FILE")
    if len(arguments) == 1 and arguments[0].endswith((".txt", ".jsonl")) and os.path.isfile(arguments[0]):
        raise InputError(f"{arguments[0]} is a file: say --input {quoted(arguments[0])} for the {what}s in it")
    return path


class LineReader:
    """Lines of a file, or of standard input for -, as bytes without their ends, one at a time.

    Blank lines at the end are none, as editors and `echo` leave them; others are lines.
    A pipe or a terminal is read as it comes; `call_off`, from another thread, ends the wait for it. (Where the system
    cannot wait for a pipe with a limit, as on Windows, the wait ends with the next line.)
    """

    def __init__(self, path: Path):
        self.name = "standard input" if str(path) == "-" else str(path)
        self._called_off, self._ended, self._lines = False, False, 0
        self._given = self._without_blank_end()  # one for all who read: a blank line may wait in it
        try:
            self._file = _binary_stdin() if str(path) == "-" else open(path, "rb")  # noqa: SIM115 (closed by `close`)
            is_regular = _is_regular(self._file)
            self.can_be_opened_again = is_regular and self.name != "standard input"  # which has one position for all
            if not is_regular and sys.platform != "win32" and _has_descriptor(self._file):
                self._file = io.BufferedReader(_Patient(self._file, self))
        except OSError as error:
            raise InputError(f"{self.name} cannot be read: {error.strerror}") from None

    def __iter__(self) -> Iterator[bytes]:
        return self._given

    def _without_blank_end(self) -> Iterator[bytes]:
        blank = 0  # lines that are only given if another one follows
        for line in self._lines_as_they_are():
            if not line.strip():
                blank += 1
                continue
            yield from itertools.repeat(b"", blank)
            blank = 0
            yield line

    def _lines_as_they_are(self) -> Iterator[bytes]:
        try:
            # A terminal that has ended once can be read again, so it would have to be ended again.
            while not self._ended and (line := self._file.readline(LONGEST + 1)) and not self._called_off:
                self._lines += 1
                self._ended = not line.endswith(b"\n")
                if len(line) > LONGEST:
                    raise InputError(
                        f"{self.name}, line {self._lines} is longer than {LONGEST:,} bytes: is this text, with a line "
                        "for each prompt?"
                    )
                if self._lines == 1:
                    line = line.removeprefix(BOM)
                if line:  # a file of a byte order mark alone has no line
                    yield line.removesuffix(b"\n").removesuffix(b"\r")
            self._ended = True
        except OSError as error:
            raise InputError(f"{self.name} cannot be read any further: {error.strerror}") from None

    def call_off(self) -> None:
        """A thread that waits for a line gets none."""
        self._called_off = True

    def close(self) -> None:
        if self.name != "standard input":
            self._file.close()


class _Patient(io.RawIOBase):
    """A pipe or a terminal, read when it has something, so that a wait can be called off."""

    def __init__(self, file: Any, reader: LineReader):
        self.file, self.reader = file, reader

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not select.select([self.file], [], [], PATIENCE)[0]:
            if self.reader._called_off:
                return 0
        data = os.read(self.file.fileno(), len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if self.reader.name != "standard input":
            self.file.close()
        super().close()


def _binary_stdin() -> Any:
    return getattr(sys.stdin, "buffer", sys.stdin)


def _has_descriptor(file: Any) -> bool:
    with contextlib.suppress(OSError):  # io.UnsupportedOperation is one
        return file.fileno() >= 0
    return False


def _is_regular(file: Any) -> bool:
    return _has_descriptor(file) and stat.S_ISREG(os.fstat(file.fileno()).st_mode)


class RecordFile:
    """A file of records that appears under its name when all are written; until then they are in NAME.part.

    A record is written whole, at once, or cut off again: whatever ends a run, NAME.part holds whole records, and a file
    that NAME was before is untouched. In a `with`: if nothing was raised, NAME gets the records in the order of their
    lines; else NAME.part stays, if there is any record in it, with them as they came. A device or a pipe, which cannot
    be replaced, is written straight away, and takes records in order alone.

    NAME.part.journal says of which line each record is, and which are whole. depends_on(): what the records depend on,
    by name; then a later run that depends on the same can go on (`resume`): `done` holds the lines that it need not do
    again, and `errors` those of them that have an error.

    Raises InputError on a place that cannot be written, on a NAME.part that somebody may still want, and on one that
    cannot be gone on with.
    """

    def __init__(self, path: Path, depends_on: Callable[[], dict[str, Any]] | None = None, resume: bool = False):
        self.path, self._size = path_to_write(path), 0
        self.done: dict[int, tuple[int, int]] = {}  # line -> where its record begins and ends
        self.errors: dict[int, str] = {}
        self.is_replaced = not self.path.exists() or self.path.is_file()
        self.can_be_resumed = self.is_replaced and depends_on is not None
        self.part = self.path.with_name(f"{self.path.name}.part") if self.is_replaced else self.path
        self._journal_path, self._journal = self.part.with_name(f"{self.part.name}.journal"), None
        if resume and not self.is_replaced:
            raise InputError(f"{path} is no file that a run could go on with: leave out --resume")
        has_records = True  # of an earlier run
        try:
            has_records = self._open_part(resume and depends_on is not None)
            if self.is_replaced:
                self._journal = Journal(self._journal_path, depends_on and depends_on())
                self._journal.begin(self._take_over_records() if has_records else ())
            if self.is_replaced and self.path.exists():  # as private as the file that it replaces
                os.chmod(self.part, self.path.stat().st_mode & 0o777)
        except BaseException as error:
            self._close_files(keep=has_records)
            if isinstance(error, OSError):
                raise InputError(f"{path} cannot be written: {error.strerror}") from None
            raise

    def _open_part(self, resume: bool) -> bool:
        """Opens what is written to -> whether there is something that an earlier run has left."""
        self._file = None
        try:
            self._file = open(self.part, "xb" if self.is_replaced else "wb", buffering=0)  # noqa: SIM115
        except FileExistsError:
            if not resume:
                before = read_journal(self._journal_path)
                how = "go on with it by --resume, or " if before and before[0] is not None else ""
                raise InputError(
                    f"{self.part} is there: the records of a run that did not end; {how}rename it or delete it first"
                ) from None
            self._file = open(self.part, "r+b", buffering=0)  # noqa: SIM115
        if self.is_replaced:
            self._lock()
        return bool(os.fstat(self._file.fileno()).st_size) and self.is_replaced

    def _lock(self) -> None:
        """Raises InputError if another run writes here; the lock ends with the process, whatever ends that."""
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{self.part} is written by another run just now: wait for its end") from None
        except OSError:  # not every file system has locks
            pass

    def _take_over_records(self) -> list[Entry]:
        """The whole records of an earlier run; what is behind them is cut off. Raises InputError if they are others."""
        journal = read_journal(self._journal_path)
        if journal is None:
            raise InputError(
                f"{self.part} has no journal ({self._journal_path.name}) that can be read, so a run cannot go on with "
                "it: rename it or delete it first"
            )
        before, entries = journal
        if before is None:
            raise InputError(
                f"{self.part} was made of prompts that could be read once, so no run can go on with it: rename it or "
                "delete it first"
            )
        kept = whole_records(self.part, entries)
        errors = {entry.line: entry.error for entry in kept if entry.error}
        # As long as no record says that a line has failed, what would be done with one has changed no record.
        parts = differences_in_words(before, self._journal.depends_on, but="" if errors else "on_error")
        if parts and kept:
            more = f" and {len(parts) - 4} more" if len(parts) > 4 else ""
            raise InputError(
                f"{self.part} was begun with other settings ({', '.join(parts[:4])}{more}): repeat them, or delete "
                "the file to start anew"
            )
        ends = [0, *(entry.end for entry in kept)]
        self._file.truncate(ends[-1])
        self._file.seek(ends[-1])
        self._size, self.errors = ends[-1], errors
        self.done = {entry.line: place for entry, place in zip(kept, itertools.pairwise(ends), strict=True)}
        return kept

    def write(self, record: str, line: int, error: str = "") -> None:
        """The record of a line of the input, with its line's end; and why the line failed, if it did.

        If it cannot be written it is cut off again; then raises InputError.
        """
        data = record.encode("utf-8")
        end = self._size + len(data)
        try:
            write_all(self._file, data)
            if self._journal:
                self._journal.note(Entry.from_record(line, end, error, data))
        except BaseException as error:  # an interrupt between two writes too
            with contextlib.suppress(OSError):
                if self.is_replaced:
                    self._file.truncate(self._size)
                    self._file.seek(self._size)
            if isinstance(error, OSError):
                raise self._make_write_error(error) from None
            raise
        self.done[line] = self._size, end
        self._size = end

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        keep, is_whole = bool(self.done), False
        try:
            if kind is None and self.is_replaced:
                os.fsync(self._file.fileno())
                self._file.close()
                whole = self._sort_records()
                os.replace(whole, self.path)
                keep, is_whole = False, whole == self.part
        except OSError as error:
            raise self._make_write_error(error) from None
        finally:
            self._close_files(keep=keep, is_whole=is_whole)

    def _sort_records(self) -> Path:
        """The file in which the records stand in the order of their lines: NAME.part, or a copy made of it."""
        lines = sorted(self.done)
        if lines == list(self.done):
            return self.part
        copy = self.part.with_name(f"{self.part.name}.sorted")
        try:
            with open(self.part, "rb") as records, open(copy, "wb") as file:
                shutil.copymode(self.part, copy)
                for line in lines:
                    begin, end = self.done[line]
                    records.seek(begin)
                    file.write(records.read(end - begin))
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(copy)
            raise
        return copy

    def _close_files(self, keep: bool, is_whole: bool = False) -> None:
        """Closes the files. keep: somebody may want the records. is_whole: NAME.part is NAME by now."""
        if self._file is None:  # it is another run's
            return
        self._file.close()
        remove = self.is_replaced and (is_whole or not keep)
        if self._journal:
            self._journal.close(remove=remove)
        if remove and not is_whole:
            with contextlib.suppress(OSError):
                os.unlink(self.part)

    def _make_write_error(self, error: OSError) -> InputError:
        return InputError(f"{self.path} cannot be written: {error.strerror}")


def path_to_write(path: Path) -> Path:
    """The path to write for a file of this name: links are followed, so that a link stays and its target changes.

    Raises InputError where none can be.
    """
    if path == Path():
        raise InputError("the output has no name: give --output a file")
    path = path.resolve()
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.parent}: make it first")
    if path.is_dir():
        raise InputError(f"{path} cannot be written: it is a folder")
    if path.exists() and not os.access(path, os.W_OK):
        raise InputError(f"{path} cannot be written: it is write-protected")
    return path


def check_picture(path: Path) -> None:
    """Raises InputError where no picture can be written: as `path_to_write` does, or if the name is no .svg."""
    target = path_to_write(path)
    if path.suffix.lower() != ".svg" and (target.is_file() or not target.exists()):  # a device has the name it has
        raise InputError(f"{path} is drawn as SVG: name it {path.with_suffix('.svg').name}")
