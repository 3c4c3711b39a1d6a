"""Tables in a page that a script of this folder wrote, between two comments that name it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from flags import file_to_read

from minidecode.course.markers import fill_between_markers


def with_marks(*names: str) -> Callable[[str], Path]:
    """A type of argument: a file that has a place for each of these tables. Looked for before any work is done."""

    def check(text: str) -> Path:
        path = file_to_read(text)
        for name in names:
            try:
                text_with_table(path, name, "")
            except ValueError as error:
                raise argparse.ArgumentTypeError(f"{error}") from None
        return path

    return check


def write_between_markers(path: Path, name: str, table: str) -> None:
    """Replaces what stands between `<!-- NAME: ... -->` and `<!-- end of NAME -->`; the comments stay."""
    try:
        path.write_text(text_with_table(path, name, table), encoding="utf-8")
    except ValueError as error:
        raise SystemExit(f"{error}") from None


def text_with_table(path: Path, name: str, table: str) -> str:
    """The file's text with the table in its place. Raises ValueError if it has none, or several."""
    try:
        text, places = fill_between_markers(path.read_text(encoding="utf-8"), name, lambda _: table)
    except ValueError:  # one of a pair is missing, or the file is no text
        places = 0
    if places != 1:
        raise ValueError(
            f"{path} has no place for the table: two lines, <!-- {name}: ... --> and <!-- end of {name} -->, once"
        )
    return text
