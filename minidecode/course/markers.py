"""Text that a script writes between two comments: `<!-- KIND: what -->` and `<!-- end of KIND -->`."""

from __future__ import annotations

import re
from collections.abc import Callable


def fill_between_markers(text: str, kind: str, write: Callable[[str], str]) -> tuple[str, int]:
    """(text, how many): what stands between such comments becomes write(what); the comments stay.

    A pair on one line is written on that line; else what is written gets lines of its own. Raises ValueError where
    one comment of a pair is missing.
    """

    def replace(match: re.Match) -> str:
        inner = write(match["what"].strip())
        return match["begin"] + (f"\n{inner}\n" if "\n" in match["old"] else inner) + match["end"]

    begin, end = rf"<!-- {re.escape(kind)}:", rf"<!-- end of {re.escape(kind)} -->"
    pattern = rf"(?P<begin>{begin}(?P<what>(?:(?!-->).)*)-->)(?P<old>(?:(?!{begin}).)*?)(?P<end>{end})"
    filled, count = re.subn(pattern, replace, text, flags=re.DOTALL)
    if not count == len(re.findall(begin, text)) == len(re.findall(end, text)):
        raise ValueError(f"a pair is broken: <!-- {kind}: ... --> and <!-- end of {kind} --> belong together")
    return filled, count
