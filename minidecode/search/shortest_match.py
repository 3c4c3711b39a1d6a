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


# ---- JSON ------------------------------------------------------------------------------------------------------------

FORMATS = {
    "date": "2000-01-01", "time": "00:00:00Z", "date-time": "2000-01-01T00:00:00Z", "duration": "P0D", "email": "a@b",
    "hostname": "a", "ipv4": "0.0.0.0", "ipv6": "::", "uri": "a:", "uuid": "00000000-0000-0000-0000-000000000000",
}  # fmt: skip


def shortest_json(schema: Any, root: Any = None) -> str | None:
    """The shortest text as json.dumps writes it; None where a schema is beyond this walk.

    It may be wrong: a matcher must look at it.

    root: the whole schema, of which this one is a part.
    """
    try:
        return json.dumps(_value(schema, schema if root is None else root, ()), ensure_ascii=False)
    except (re.error, NotImplementedError, RecursionError, ArithmeticError):
        return None
    except (AttributeError, LookupError, TypeError, ValueError):  # no schema: a matcher says so
        return None


def _value(schema: Any, root: Any, within: tuple[str, ...]) -> Any:
    """A value of which the JSON is short. within: the references that lead here, which must not come again."""
    if schema is True or schema == {}:
        return 0
    if (reference := schema.get("$ref")) is not None:
        if reference in within or not reference.startswith("#"):
            raise NotImplementedError
        target = root
        for key in reference[1:].split("/")[1:]:
            target = target[key]
        return _value(target, root, (*within, reference))
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return min(schema["enum"], key=_size)
    if "allOf" in schema:
        (schema,) = schema["allOf"]  # several are beyond this walk
        return _value(schema, root, within)
    if parts := schema.get("anyOf") or schema.get("oneOf"):
        return _shortest_of(parts, root, within)
    kind = schema.get("type") or next((kind for key, kind in TYPE_OF.items() if key in schema), "integer")
    if isinstance(kind, list):
        return _shortest_of([schema | {"type": each} for each in kind], root, within)
    match kind:
        case "object":
            properties, required = schema.get("properties", {}), schema.get("required", [])
            names = [*(name for name in properties if name in required), *(n for n in required if n not in properties)]
            return {name: _value(properties.get(name, True), root, within) for name in names}
        case "array":
            first, least = schema.get("prefixItems", []), schema.get("minItems", 0)
            if least > MOST:
                raise NotImplementedError
            rest = (
                [_value(schema.get("items", True), root, within)] * (least - len(first)) if least > len(first) else []
            )
            return [*(_value(part, root, within) for part in first[:least]), *rest]
        case "string":
            text = FORMATS[schema["format"]] if "format" in schema else ""
            if "pattern" in schema:
                text = _of(re._parser.parse(schema["pattern"]))  # type: ignore[attr-defined]
            return text.ljust(min(schema.get("minLength", 0), MOST), "0")
        case "integer" | "number":
            return _number(schema, is_whole=kind == "integer")
    return {"boolean": True, "null": None}[kind]


TYPE_OF = {"properties": "object", "required": "object", "items": "array", "prefixItems": "array", "minItems": "array",
           "pattern": "string", "format": "string", "minLength": "string"}  # fmt: skip


def _shortest_of(parts: list[Any], root: Any, within: tuple[str, ...]) -> Any:
    values = []
    for part in parts:
        try:
            values.append(_value(part, root, within))
        except (re.error, NotImplementedError, LookupError):
            continue  # such as a tree's branch, where another part is its leaf
    if not values:
        raise NotImplementedError
    return min(values, key=_size)


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False))


def _number(schema: dict[str, Any], is_whole: bool) -> float:
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
