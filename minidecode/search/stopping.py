"""What ends a text beside EOS and its limit: strings in it, functions of the caller's, and the clock."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..device.user_functions import call_option, describe
from ..errors import OptionError, shown

if TYPE_CHECKING:
    from .options import Options


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

    def settled(self, stops: Sequence[str]) -> str:
        """The text without its end, as far as that may be the beginning of a stop string."""
        return self._before(len(self._marked) - may_begin_stop(self._marked, self._with_marks(stops)))

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


@dataclass
class Stopping:
    """Asked once a step, by the host: which texts end with their newest token.

    new_text: (ids before, ids, stop strings) -> the text of the ids there. textless: ids of special tokens that no stop
    string names. tail: how many other tokens at the end of a text can hold a stop string that ends in the newest one;
    None where only the whole text tells.
    """

    options: Options
    new_text: Callable[[np.ndarray, np.ndarray, Sequence[str]], NewText] | None
    textless: Sequence[int] = ()
    tail: int | None = None
    began: float = field(default_factory=time.perf_counter)
    cut_at: int | None = None  # the new tokens at which max_time ended what was left

    def is_last(self, step: int) -> bool:
        """Whether max_time is over, so that this step is the last."""
        if self.cut_at is None and time.perf_counter() - self.began >= (self.options.max_time or float("inf")):
            self.cut_at = step + 1
        return self.cut_at is not None

    @property
    def looks_at_texts(self) -> bool:
        """Whether strings or functions are to be asked."""
        return bool(self.options.stop_strings or self.options.stopping_criteria)

    def ends(self, texts: Iterable[np.ndarray], prompt_R: np.ndarray, scores_RV: np.ndarray | None) -> np.ndarray:
        """end_R: whether each text ends. texts: ids, each behind its prompt of prompt_R tokens, the newest one last."""
        texts = list(texts)
        end_R = np.array([self._has_stop(ids[:p], ids[p:]) for ids, p in zip(texts, prompt_R, strict=True)], bool)
        for function in self.options.stopping_criteria:
            answer = np.asarray(call_option("stopping_criteria", "f(ids, scores)", function, texts, scores_RV))
            if answer.dtype != bool or answer.shape not in ((), end_R.shape):
                raise OptionError(
                    f"stopping_criteria: {describe(function)} returned {answer!r:.80}: return True or False, or one "
                    f"for each of the {len(texts)} texts"
                )
            end_R |= answer
        return end_R

    def _has_stop(self, before: np.ndarray, ids: np.ndarray) -> bool:
        if self.new_text is None or not self.options.stop_strings:
            return False
        ids = ids[~np.isin(ids, self.textless)]
        if self.tail is not None and len(ids) > self.tail:
            before, ids = np.split(ids, [-self.tail])
        return self.new_text(before, ids, self.options.stop_strings).has(self.options.stop_strings)


def checked_stops(name: str, value: Any) -> tuple[str, ...]:
    """Stop strings as a tuple. Raises OptionError unless they are texts that are not empty."""
    stops = (value,) if isinstance(value, str) else () if value is None else value
    stops = tuple(stops) if isinstance(stops, list | tuple | set) else (stops,)
    if not all(isinstance(stop, str) and stop for stop in stops):
        raise OptionError(f"{name} must be texts that are not empty, not {shown(value)}")
    if any("\ud800" <= c <= "\udfff" for stop in stops for c in stop):
        raise OptionError(f"{name} holds half a surrogate pair, which is no text: leave it out")
    return tuple(dict.fromkeys(stops))


def checked_functions(name: str, value: Any) -> tuple[Callable[..., Any], ...]:
    """Functions as a tuple: one, several or none. Raises OptionError on what cannot be called."""
    functions = (value,) if callable(value) else value or ()
    functions = tuple(functions) if isinstance(functions, Iterable) else (functions,)
    if not all(map(callable, functions)):
        raise OptionError(f"{name} must be functions, not {shown(value)}")
    return functions
