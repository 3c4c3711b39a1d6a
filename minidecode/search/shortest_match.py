"""A short text that a regular expression matches: a walk through what Python's parser makes of the pattern."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from typing import Any

CATEGORIES = {
    "CATEGORY_DIGIT": str.isdigit, "CATEGORY_SPACE": str.isspace,
    "CATEGORY_WORD": lambda c: c.isalnum() or c == "_",
}  # fmt: skip
MOST = 10_000  # characters


def shortest_match(pattern: str) -> str | None:
    """None where the pattern is none of Python's, holds look-around or a reference, or matches long texts alone."""
    try:
        text = _of(re._parser.parse(pattern))  # type: ignore[attr-defined]  # it has no public name
    except (re.error, AttributeError, NotImplementedError, OverflowError, RecursionError):
        return None
    return text if len(text) <= MOST else None


def _of(parsed: Iterable[tuple[Any, Any]]) -> str:
    return "".join(_of_item(str(kind), value) for kind, value in parsed)


def _of_item(kind: str, value: Any) -> str:
    match kind:
        case "LITERAL":
            return chr(value)
        case "NOT_LITERAL":
            return next(c for c in string.printable if c != chr(value))
        case "ANY":
            return "0"
        case "IN":
            return _of_class(value)
        case "BRANCH":
            return min(map(_of, value[1]), key=len)
        case "SUBPATTERN":
            return _of(value[-1])
        case "ATOMIC_GROUP":
            return _of(value)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, _, repeated = value
            once = _of(repeated)
            if least * len(once) > MOST:
                raise OverflowError
            return once * least
        case "AT":  # an anchor
            return ""
    raise NotImplementedError


def _of_class(items: list[tuple[Any, Any]]) -> str:
    """A character of a class such as [a-f_] or [^x]."""
    parts = [(str(kind), value) for kind, value in items]
    is_negated = parts[0][0] == "NEGATE"
    first = [chr(value if kind == "LITERAL" else value[0]) for kind, value in parts if kind in ("LITERAL", "RANGE")]
    candidates = string.printable if is_negated else [*first, *string.printable]
    for character in candidates:
        if any(_is_one(character, *part) for part in parts) != is_negated:
            return character
    raise NotImplementedError  # characters beyond ASCII alone


def _is_one(character: str, kind: str, value: Any) -> bool:
    match kind:
        case "LITERAL":
            return ord(character) == value
        case "RANGE":
            return value[0] <= ord(character) <= value[1]
        case "CATEGORY":
            name = str(value).replace("_NOT", "")
            return CATEGORIES[name](character) == (name == str(value))
    return False
