"""Strings that end a text: their check, where the first one stands, and the text before it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import OptionError, shown


def first_stop(text: str, stops: Sequence[str]) -> tuple[int, int] | None:
    """(begin, end) of the stop string that is complete first in a text; of several, the one that begins first."""
    ends = [(begin + len(stop), begin) for stop in stops if (begin := text.find(stop)) >= 0]
    if not ends:
        return None
    end, begin = min(ends)
    return begin, end


def cut_at_stop(text: str, stops: Sequence[str], keep: bool = False) -> str:
    """The text before the first stop string, or with it if `keep`; all of it where none occurs."""
    if (place := first_stop(text, stops)) is None:
        return text
    begin, end = place
    return text[: end if keep else begin]


def length_of_possible_stop(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end of a text may be the beginning of a stop string."""
    lengths = (n for stop in stops for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n]))
    return max(lengths, default=0)


@dataclass(frozen=True)
class NewText:
    """The text of new tokens, and the special tokens in it that stop strings name, such as <|im_end|>.

    special: of each of those, how many characters of the text stand before it, and its name. It is no text: a stop
    string meets it as a whole or not at all. So it becomes one character here, of those that no text has.
    """

    text: str
    special: Sequence[tuple[int, str]] = ()

    def has(self, stops: Sequence[str]) -> bool:
        """Whether a stop string is complete in it."""
        return first_stop(self._marked, self._with_marks(stops)) is not None

    def cut(self, stops: Sequence[str], keep: bool = False) -> str:
        """The text before the first stop string, or with it if `keep`."""
        return self._before(len(cut_at_stop(self._marked, self._with_marks(stops), keep)))

    def text_before_possible_stop(self, stops: Sequence[str]) -> str:
        """The text without its end, as far as that may be the beginning of a stop string."""
        return self._before(len(self._marked) - length_of_possible_stop(self._marked, self._with_marks(stops)))

    @functools.cached_property
    def _marks(self) -> dict[str, str]:
        """The character of each special token: half of a surrogate pair."""
        return {
            name: chr(0xD800 + n) for n, name in enumerate(sorted({name for _, name in self.special}, key=len)[::-1])
        }

    @functools.cached_property
    def _marked(self) -> str:
        parts, at = [], 0
        for place, name in self.special:
            parts += [self.text[at:place], self._marks[name]]
            at = place
        return "".join([*parts, self.text[at:]])

    def _with_marks(self, stops: Sequence[str]) -> list[str]:
        """Stop strings, as text and with its characters for special tokens."""
        marked = list(stops)
        for name, mark in self._marks.items():
            marked = [stop.replace(name, mark) for stop in marked]
        return [*stops, *marked]

    def _before(self, place: int) -> str:
        """The text in front of a place of `_marked`."""
        return "".join(c for c in self._marked[:place] if c not in self._marks.values())


def checked_stops(name: str, value: Any) -> tuple[str, ...]:
    """Stop strings as a tuple. Raises OptionError unless they are texts that are not empty."""
    stops = (value,) if isinstance(value, str) else () if value is None else value
    stops = tuple(stops) if isinstance(stops, list | tuple | set) else (stops,)
    if not all(isinstance(stop, str) and stop for stop in stops):
        raise OptionError(f"{name} must be texts that are not empty, not {shown(value)}")
    if any("\ud800" <= c <= "\udfff" for stop in stops for c in stop):
        raise OptionError(f"{name} holds half a surrogate pair, which is no text: leave it out")
    return tuple(dict.fromkeys(stops))
