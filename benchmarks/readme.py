"""Tables in the README that a script of this folder wrote, between two comments that name it."""

from __future__ import annotations

from pathlib import Path


def write_between_markers(path: Path, name: str, table: str) -> None:
    """Replaces what stands between `<!-- NAME: ... -->` and `<!-- end of NAME -->`; the comments stay."""
    text = path.read_text(encoding="utf-8")
    begin, end = text.find(f"<!-- {name}: "), text.find(f"<!-- end of {name} -->")
    if not 0 <= begin < end:
        raise SystemExit(
            f"{path} has no place for the table: two lines, <!-- {name}: ... --> and <!-- end of {name} -->"
        )
    first = text.index("\n", begin) + 1
    path.write_text(text[:first] + table + "\n" + text[end:], encoding="utf-8")
