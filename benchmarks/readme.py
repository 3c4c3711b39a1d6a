"""Tables in the README that a script of this folder wrote, between two comments that name it."""

from __future__ import annotations

from pathlib import Path

from minidecode.course.markers import fill


def write_between_markers(path: Path, name: str, table: str) -> None:
    """Replaces what stands between `<!-- NAME: ... -->` and `<!-- end of NAME -->`; the comments stay."""
    try:
        text, places = fill(path.read_text(encoding="utf-8"), name, lambda _: table)
    except ValueError:
        places = 0
    if places != 1:
        raise SystemExit(
            f"{path} has no place for the table: two lines, <!-- {name}: ... --> and <!-- end of {name} -->, once"
        )
    path.write_text(text, encoding="utf-8")
