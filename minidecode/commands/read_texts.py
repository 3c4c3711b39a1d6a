"""Texts that a command reads all at once, from a file or standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..lines.records import read_record
from .prompts import read_prompts_of_command


def read_records_of_command(arguments: list[str], path: Path | None, jsonl: bool) -> list[dict[str, Any]]:
    """A record with a "prompt" for each text of the arguments, or of a file or standard input, never of both.

    Raises InputError if there is none, and on one that is blank.
    """
    with read_prompts_of_command(arguments, path, jsonl, "text") as given:
        return [
            read_record(line, given.is_jsonl, f"{given.source} {i}", "text") for i, line in enumerate(given.lines, 1)
        ]


def read_records(path: Path) -> list[dict[str, Any]]:
    """Records with a "prompt" each, from a file of JSON lines or, for -, from standard input."""
    name, lines = read_lines(path)
    return [read_record(line, True, f"{name}, line {i}") for i, line in enumerate(lines, 1)]


def read_lines(path: Path) -> tuple[str, list[str]]:
    """(the name to call it by, lines without their ends) of a file or, for -, of standard input: UTF-8, not empty.

    Blank lines at the end are none.
    """
    name = "standard input" if str(path) == "-" else str(path)
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        data, at = error.object, error.start  # the decoder's own: without the byte order mark
        line = data[:at].count(b"\n") + 1
        raise InputError(
            f"{name} is not UTF-8: byte 0x{data[at]:02x} on line {line}; convert it to UTF-8 first"
        ) from None
    lines = text.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise InputError(f"{name} is empty: write one text per line")
    return name, [line.removesuffix("\r") for line in lines]
