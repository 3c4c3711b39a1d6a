"""A short text that a regular expression matches: a walk through what Python's parser makes of the pattern.

And a short JSON text that a schema allows: a walk through the schema.
"""

from __future__ import annotations

import json
import math
import re
import string
from collections.abc import Iterable
from typing import Any

CATEGORIES = {
    "CATEGORY_DIGIT": str.isdigit, "CATEGORY_SPACE": str.isspace,
    "CATEGORY_WORD": lambda c: c.isalnum() or c == "_",
}  # fmt: skip
MOST = 4_000  # characters
PARTS = 100_000  # parts of a schema, and characters of its patterns and values, that a walk looks at


def shortest_match(pattern: str) -> str | None:
    """A short match of a pattern; None if it is long, or the pattern has look-around, references or other syntax."""
    try:
        text = _short_text_of_pattern(re._parser.parse(pattern))  # type: ignore[attr-defined]  # it has no public name
    except (re.error, AttributeError, NotImplementedError, OverflowError, RecursionError):
        return None
    return text if len(text) <= MOST else None


def _short_text_of_pattern(parsed: Iterable[tuple[Any, Any]]) -> str:
    text = ""
    for kind, value in parsed:
        text += _short_text_of_item(str(kind), value)
        if len(text) > MOST:
            raise OverflowError
    return text


def _short_text_of_item(kind: str, value: Any) -> str:
    match kind:
        case "LITERAL":
            return chr(value)
        case "NOT_LITERAL":
            return next(c for c in string.printable if c != chr(value))
        case "ANY":
            return "0"
        case "IN":
            return _character_of_class(value)
        case "BRANCH":
            return min(map(_short_text_of_pattern, value[1]), key=len)
        case "SUBPATTERN":
            return _short_text_of_pattern(value[-1])
        case "ATOMIC_GROUP":
            return _short_text_of_pattern(value)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, _, repeated = value
            once = _short_text_of_pattern(repeated)
            if least * len(once) > MOST:
                raise OverflowError
            return once * least
        case "AT":  # an anchor
            return ""
    raise NotImplementedError


def _character_of_class(items: list[tuple[Any, Any]]) -> str:
    """A character of a class such as [a-f_] or [^x]."""
    parts = [(str(kind), value) for kind, value in items]
    is_negated = parts[0][0] == "NEGATE"
    first = [chr(value if kind == "LITERAL" else value[0]) for kind, value in parts if kind in ("LITERAL", "RANGE")]
    candidates = string.printable if is_negated else [*first, *string.printable]
    for character in candidates:
        if any(_fits_part(character, *part) for part in parts) != is_negated:
            return character
    raise NotImplementedError  # characters beyond ASCII alone


def _fits_part(character: str, kind: str, value: Any) -> bool:
    match kind:
        case "LITERAL":
            return ord(character) == value
        case "RANGE":
            return value[0] <= ord(character) <= value[1]
        case "CATEGORY":
            name = str(value).replace("_NOT", "")
            return CATEGORIES[name](character) == (name == str(value))
    return False


# ---- JSON ------------------------------------------------------------------------------------------------------------

FORMATS = {
    "date": "2000-01-01", "time": "00:00:00Z", "date-time": "2000-01-01T00:00:00Z", "duration": "P0D", "email": "a@b",
    "hostname": "a", "ipv4": "0.0.0.0", "ipv6": "::", "uri": "a:", "uuid": "00000000-0000-0000-0000-000000000000",
}  # fmt: skip


class WalkBudget:
    """What a walk may still look at. A short schema may name a part 2**n times, or hold an array of 10**9 values."""

    def __init__(self, left: int = PARTS):
        self.left = left

    def spend(self, amount: int) -> None:
        """Raises NotImplementedError when nothing is left."""
        self.left -= amount
        if self.left < 0:
            raise NotImplementedError

    def json(self, value: Any) -> str:
        """A value of the schema as JSON."""
        text = json.dumps(value, ensure_ascii=False)
        self.spend(len(text))
        return text


def shortest_json(schema: Any, root: Any = None, budget: WalkBudget | None = None) -> str | None:
    """The shortest text as json.dumps writes it; None where a schema is beyond this walk.

    It may be wrong: a matcher must look at it.

    root: the whole schema, of which this one is a part. budget: what this walk may look at.
    """
    try:
        return _short_json(schema, schema if root is None else root, (), WalkBudget() if budget is None else budget)
    except (re.error, NotImplementedError, RecursionError, ArithmeticError):
        return None
    except (AttributeError, LookupError, TypeError, ValueError):  # no schema: a matcher says so
        return None


def _short_json(schema: Any, root: Any, open_references: tuple[str, ...], budget: WalkBudget) -> str:
    """A short JSON text, of MOST characters at most. open_references: those that lead here; none may come again."""
    budget.spend(1)
    if (text := _short_json_of_any_length(schema, root, open_references, budget)) and len(text) > MOST:
        raise NotImplementedError
    return text


def _short_json_of_any_length(schema: Any, root: Any, open_references: tuple[str, ...], budget: WalkBudget) -> str:
    if schema is True or schema == {}:
        return "0"
    if (reference := schema.get("$ref")) is not None:
        if reference in open_references or not reference.startswith("#"):
            raise NotImplementedError
        target = root
        for key in reference[1:].split("/")[1:]:
            target = target[key]
        return _short_json(target, root, (*open_references, reference), budget)
    if "const" in schema:
        return budget.json(schema["const"])
    if "enum" in schema:
        return min(map(budget.json, schema["enum"]), key=len)
    if "allOf" in schema:
        (schema,) = schema["allOf"]  # several are beyond this walk
        return _short_json(schema, root, open_references, budget)
    if parts := schema.get("anyOf") or schema.get("oneOf"):
        return _shortest_of(parts, root, open_references, budget)
    kind = schema.get("type") or next((kind for key, kind in TYPE_OF.items() if key in schema), "integer")
    if isinstance(kind, list):
        budget.spend(len(kind) * len(schema))
        return _shortest_of([schema | {"type": each} for each in kind], root, open_references, budget)
    match kind:
        case "object":
            properties, required = schema.get("properties", {}), schema.get("required", [])
            budget.spend(len(properties) + len(required))
            needed = dict.fromkeys(required)
            names = [*(name for name in properties if name in needed), *(n for n in needed if n not in properties)]
            values = (_short_json(properties.get(n, True), root, open_references, budget) for n in names)
            return f"{{{', '.join(f'{budget.json(n)}: {value}' for n, value in zip(names, values, strict=True))}}}"
        case "array":
            first, least = schema.get("prefixItems", []), schema.get("minItems", 0)
            if least > MOST:
                raise NotImplementedError
            texts = [_short_json(part, root, open_references, budget) for part in first[:least]]
            if least > len(first):
                rest = _short_json(schema.get("items", True), root, open_references, budget)
                budget.spend(len(rest) * (least - len(first)))
                texts += [rest] * (least - len(first))
            return f"[{', '.join(texts)}]"
        case "string":
            text = FORMATS[schema["format"]] if "format" in schema else ""
            if "pattern" in schema:
                budget.spend(len(schema["pattern"]))
                text = _short_text_of_pattern(re._parser.parse(schema["pattern"]))  # type: ignore[attr-defined]
            return json.dumps(text.ljust(min(schema.get("minLength", 0), MOST), "0"), ensure_ascii=False)
        case "integer" | "number":
            return json.dumps(_shortest_number(schema, is_whole=kind == "integer"))
    return {"boolean": "true", "null": "null"}[kind]


TYPE_OF = {"properties": "object", "required": "object", "items": "array", "prefixItems": "array", "minItems": "array",
           "pattern": "string", "format": "string", "minLength": "string"}  # fmt: skip


def _shortest_of(parts: list[Any], root: Any, open_references: tuple[str, ...], budget: WalkBudget) -> str:
    texts = []
    for part in parts:
        try:
            texts.append(_short_json(part, root, open_references, budget))
        except (re.error, NotImplementedError, LookupError, OverflowError):
            budget.spend(1)  # such as a tree's branch, where another part is its leaf
    if not texts:
        raise NotImplementedError
    return min(texts, key=len)


def _shortest_number(schema: dict[str, Any], is_whole: bool) -> float:
    """0, or the number within the bounds that is the nearest to it."""
    step = schema.get("multipleOf", 1)
    low = max(schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf))
    high = min(schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf))
    number: float = 0
    if low > 0 or schema.get("exclusiveMinimum") == 0:
        number = math.ceil(low / step) * step
        number += step if number == schema.get("exclusiveMinimum") else 0
    elif high < 0 or schema.get("exclusiveMaximum") == 0:
        number = math.floor(high / step) * step
        number -= step if number == schema.get("exclusiveMaximum") else 0
    if not is_whole and not low <= number <= high:  # no whole number lies between the bounds
        number = (low + high) / 2
    return int(number) if number == int(number) else number
