"""Checks of one option's value: each says what it takes, and makes of it what a search reads.

A check is called with the option's name and the value, and returns the value to keep. It raises OptionError on others.
`flag` is the type of the option's flag on the command line (None: it has none), `given` the type of what a call may
give, where that is more than the type that is kept.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

import numpy as np

from ..errors import OptionError, shown
from .constraints import checked_regex, checked_schema
from .stop_strings import checked_stops


@dataclass(frozen=True)
class Whole:
    """An integer; bool is none."""

    least: int = 0
    may_be_none: bool = False
    most: int | None = None  # below 2**64 in any case
    flag: ClassVar[Any] = int
    given: ClassVar[str] = ""

    def __call__(self, name: str, value: Any) -> int | None:
        if value is None and self.may_be_none:
            return None
        if isinstance(value, bool) or not is_whole(value) or value < self.least:
            raise OptionError(f"{name} must be an integer from {self.least} up, not {shown(value)}")
        if value >= 2**64:
            raise OptionError(f"{name} must be below 2**64, not {shown(value)}")
        if self.most is not None and value > self.most:
            raise OptionError(f"{name} must be at most {self.most:,}, not {shown(value)}")
        return int(value)


@dataclass(frozen=True)
class Number:
    """A number that keeps a rule."""

    keeps: Callable[[float], bool]
    words: str  # the rule
    may_be_none: bool = False
    flag: ClassVar[Any] = float
    given: ClassVar[str] = ""

    def __call__(self, name: str, value: Any) -> float | None:
        if value is None and self.may_be_none:
            return None
        if not is_number(value) or not self.keeps(value):
            raise OptionError(f"{name} must be a number {self.words}, not {shown(value)}")
        return float(value)


@dataclass(frozen=True)
class OneOf:
    """One of several values, of which `words` are shown."""

    values: tuple[Any, ...]
    words: str
    flag: Any = str
    given: ClassVar[str] = ""

    def __call__(self, name: str, value: Any) -> Any:
        if not isinstance(value, str | bool) or value not in self.values:
            raise OptionError(f"{name} must be {self.words}, not {shown(value)}")
        return value


TRUE_OR_FALSE = OneOf((True, False), "True or False", bool)


@dataclass(frozen=True)
class Checked:
    """What a function of (name, value) takes."""

    function: Callable[[str, Any], Any]
    flag: Any = None
    given: str = ""

    def __call__(self, name: str, value: Any) -> Any:
        return self.function(name, value)


def as_python(value: Any) -> Any:
    """A number or truth value of NumPy's as Python's; anything else as it is."""
    is_one = isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0)
    return value.item() if is_one else value


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is an integer."""
    return isinstance(value, numbers.Integral)


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a real number; bool is none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and hasattr(value, "__len__") and not isinstance(value, str | bytes | dict)


def _check_token_ids(name: str, value: Any) -> tuple[int, ...]:
    if value is None:
        return ()
    ids = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
    for i in ids:
        if isinstance(i, bool) or not is_whole(i) or i < 0:
            raise OptionError(f"{name} must be token ids from 0 up, not {shown(i)}")
    return tuple(map(int, ids))


def _check_id_lists(name: str, value: Any) -> tuple[tuple[int, ...], ...]:
    value = value if value is not None else ()
    if not _is_list(value) or any(not _is_list(w) or len(w) == 0 for w in value):
        raise OptionError(f"{name} must be lists of token ids, none of them empty, not {shown(value)}")
    return tuple(_check_token_ids(name, word) for word in value)


def _check_biases(name: str, value: Any) -> tuple[tuple[tuple[int, ...], float], ...]:
    """Pairs (ids, bias). Raises OptionError on what is no mapping and no list of pairs."""
    pairs = list(value.items()) if isinstance(value, Mapping) else list(value or ()) if _is_list(value or ()) else None
    if pairs is None or any(not _is_list(pair) or len(pair) != 2 for pair in pairs):
        raise OptionError(f"{name} must be {{ids: bias}} or a list of [ids, bias], not {value!r:.80}")
    for ids, bias in pairs:
        if not _is_list(ids) or len(ids) == 0:
            raise OptionError(f"{name} needs one token id or more for each bias, not {ids!r:.80}")
        if not is_number(bias) or not abs(bias) <= 1e6:
            raise OptionError(f"{name} must be numbers between -1e6 and 1e6, not {bias!r:.80}")
    return tuple({_check_token_ids(name, ids): float(bias) for ids, bias in pairs}.items())


def _check_decay(name: str, value: Any) -> tuple[int, float] | None:
    """(start, factor). Raises OptionError on anything else."""
    if value is None:
        return None
    is_pair = _is_list(value) and len(value) == 2
    start, factor = map(as_python, value) if is_pair else (None, None)
    if not is_whole(start) or isinstance(start, bool) or start < 0 or not is_number(factor) or not 0 < factor <= 100:
        raise OptionError(
            f"{name} must be (new tokens from which it acts, factor above 0 and at most 100), not {value!r:.80}"
        )
    return int(start), float(factor)


def _check_function(name: str, value: Any) -> Callable[..., Any] | None:
    if not callable(value or callable):
        raise OptionError(f"{name} must be a function, not {value!r:.80}")
    return value


def _check_functions(name: str, value: Any) -> tuple[Callable[..., Any], ...]:
    """One, several or none. Raises OptionError on what cannot be called."""
    functions = (value,) if callable(value) else value or ()
    functions = tuple(functions) if isinstance(functions, Iterable) else (functions,)
    if not all(map(callable, functions)):
        raise OptionError(f"{name} must be functions, not {shown(value)}")
    return functions


TOKEN_ID = Whole(may_be_none=True)
TOKEN_IDS = Checked(_check_token_ids, list[int], "int | Sequence[int] | None")
ID_LISTS = Checked(_check_id_lists, list[str], "Sequence[Sequence[int]] | None")
BIASES = Checked(_check_biases, list[str], "Mapping[tuple[int, ...], float] | Sequence[Sequence[Any]] | None")
DECAY = Checked(_check_decay, str, "Sequence[float] | None")
STRINGS = Checked(checked_stops, list[str], "str | Sequence[str] | None")
REGEX = Checked(lambda name, value: checked_regex(value), str)
SCHEMA = Checked(lambda name, value: checked_schema(value), str)
FUNCTION = Checked(_check_function)
FUNCTIONS = Checked(_check_functions)
