"""Many lines in, many records out: files that are read as they come, and written so that no record is ever half."""

from __future__ import annotations

import contextlib
import io
import os
import select
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import InputError, quoted

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

    A pipe or a terminal is read as it comes; `call_off`, from another thread, ends the wait for it. (Where the system
    cannot wait for a pipe with a limit, as on Windows, the wait ends with the next line.)
    """

    def __init__(self, path: Path):
        self.name = "standard input" if str(path) == "-" else str(path)
        self._called_off, self._ended, self._lines = False, False, 0
        try:
            self._file = _stdin() if str(path) == "-" else open(path, "rb")  # noqa: SIM115 (closed by `close`)
            self.is_regular = _is_regular(self._file)
            if not self.is_regular and sys.platform != "win32" and _has_descriptor(self._file):
                self._file = io.BufferedReader(_Patient(self._file, self))
        except OSError as error:
            raise InputError(f"{self.name} cannot be read: {error.strerror}") from None

    def __iter__(self) -> Iterator[bytes]:
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


def _stdin() -> Any:
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
    that NAME was before is untouched. In a `with`: if nothing was raised, NAME.part becomes NAME; else it stays, if
    there is any record in it. A device or a pipe, which cannot be replaced, is written straight away.

    Raises InputError on a place that cannot be written, and on a NAME.part that somebody may still want.
    """

    def __init__(self, path: Path):
        self.path, self._size = writable(path), 0
        self.reached = 0  # the number of the last line whose record is written
        self.is_replaced = not self.path.exists() or self.path.is_file()
        self.part = self.path.with_name(f"{self.path.name}.part") if self.is_replaced else self.path
        try:
            self._file = open(self.part, "xb" if self.is_replaced else "wb", buffering=0)  # noqa: SIM115
            if self.is_replaced and self.path.exists():  # who could not read the file cannot read this one
                os.chmod(self.part, self.path.stat().st_mode & 0o777)
        except FileExistsError:
            raise InputError(
                f"{self.part} is there: the records of a run that did not end; rename it or delete it first"
            ) from None
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from None

    def write(self, record: str, line: int) -> None:
        """The record of a line of the input, with its line's end.

        If it cannot be written it is cut off again; then raises InputError.
        """
        data = memoryview(record.encode("utf-8"))
        try:
            written = 0
            while written < len(data):
                written += self._file.write(data[written:])
        except BaseException as error:  # an interrupt between two writes too
            with contextlib.suppress(OSError):
                if self.is_replaced:
                    self._file.truncate(self._size)
                    self._file.seek(self._size)
            if isinstance(error, OSError):
                raise self._cannot(error) from None
            raise
        self._size, self.reached = self._size + len(data), line

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            if kind is None and self.is_replaced:
                os.fsync(self._file.fileno())
                self._file.close()
                os.replace(self.part, self.path)
        except OSError as error:
            raise self._cannot(error) from None
        finally:
            self._file.close()
            if self.is_replaced and not self.reached:
                with contextlib.suppress(OSError):
                    os.unlink(self.part)

    def _cannot(self, error: OSError) -> InputError:
        return InputError(f"{self.path} cannot be written: {error.strerror}")


def writable(path: Path) -> Path:
    """Where a file of this name is written, through links, so that the link stays and its target changes.

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


def drawable(path: Path) -> Path:
    """Where a picture of this name is written. Raises InputError as `writable` does, or if it is to be no SVG."""
    target = writable(path)
    if path.suffix.lower() != ".svg" and (target.is_file() or not target.exists()):  # a device has the name it has
        raise InputError(f"{path} is drawn as SVG: name it {path.with_suffix('.svg').name}")
    return target
