"""Strings that end a text: their check, where the first one stands, and the text before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import OptionError, shown


def first_stop(text: str, stops: Sequence[str]) -> tuple[int, int] | None:
    """(begin, end) of the stop string that is complete first in a text; of several, the one that begins first."""
    found = [(begin + len(stop), begin) for stop in stops if (begin := text.find(stop)) >= 0]
    if not found:
        return None
    end, begin = min(found)
    return begin, end


def cut_at_stop(text: str, stops: Sequence[str], keep: bool = False) -> str:
    """The text before the first stop string, or with it if `keep`; all of it where none occurs."""
    if (place := first_stop(text, stops)) is None:
        return text
    begin, end = place
    return text[: end if keep else begin]


def may_begin_stop(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end of a text may be the beginning of a stop string."""
    lengths = (n for stop in stops for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n]))
    return max(lengths, default=0)


def checked_stops(name: str, value: Any) -> tuple[str, ...]:
    """Stop strings as a tuple. Raises OptionError unless they are texts that are not empty."""
    stops = (value,) if isinstance(value, str) else () if value is None else value
    stops = tuple(stops) if isinstance(stops, list | tuple | set) else (stops,)
    if not all(isinstance(stop, str) and stop for stop in stops):
        raise OptionError(f"{name} must be texts that are not empty, not {shown(value)}")
    if any("\ud800" <= c <= "\udfff" for stop in stops for c in stop):
        raise OptionError(f"{name} holds half a surrogate pair, which is no text: leave it out")
    return tuple(dict.fromkeys(stops))
