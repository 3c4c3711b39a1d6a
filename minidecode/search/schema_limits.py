"""What a JSON schema may ask of llguidance, whose own limits do not see all work.

A multipleOf takes a state for each remainder: 999,983 took 5.6 s and 460 MB. Patterns that one text must all match take
states for all of their combinations: of 40 short ones the library ran out of 15 GB, and ended the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from ..errors import OptionError

MOST_REMAINDERS = 20_000
MOST_AT_ONCE = 8  # patterns that one text may have to match
MOST_KEYS = 100  # of patternProperties: each pair of them is looked at


def dicts_within(schema: Any) -> Iterator[dict[str, Any]]:
    """The dicts in a schema, itself included."""
    if isinstance(schema, dict):
        yield schema
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from dicts_within(part)


def check_schema(schema: Any) -> None:
    """Raises OptionError on a schema that would take llguidance seconds, or gigabytes."""
    each = list(dicts_within(schema))
    at_once = any(map(_matches_at_once, each))
    total, product, patterns = 0, 1, 0
    for part in each:
        patterns += isinstance(part.get("pattern"), str)
        if (step := _count_remainders(part.get("multipleOf"))) > 1:
            total, product = total + step, min(product * step, 10**12)
        if len(part.get("patternProperties") or ()) > MOST_KEYS:
            raise OptionError(f"json_schema: patternProperties has more than {MOST_KEYS} patterns: leave some out")
    if (product if at_once else total) > MOST_REMAINDERS:
        joined = "multiplied" if at_once else "added up"
        raise OptionError(
            f"json_schema: its multipleOf, {joined}, take more than {MOST_REMAINDERS:,} remainders: use smaller ones"
        )
    if at_once and patterns > MOST_AT_ONCE:
        raise OptionError(
            f"json_schema: {patterns} patterns, of which one text may have to match several: use at most "
            f"{MOST_AT_ONCE}, or no allOf, and no pattern beside $ref, anyOf or oneOf"
        )


def _matches_at_once(part: dict[str, Any]) -> bool:
    """Whether a text may have to match this part and another one."""
    return "allOf" in part or bool({"pattern", "multipleOf"} & set(part) and {"$ref", "anyOf", "oneOf"} & set(part))


def _count_remainders(step: Any) -> int:
    """How many remainders a multipleOf has; the zeros at its end take none."""
    if isinstance(step, bool) or not isinstance(step, int | float) or not 0 < step < float("inf"):
        return 0  # the library says what is wrong
    return int("".join(map(str, Decimal(str(step)).normalize().as_tuple().digits)))
