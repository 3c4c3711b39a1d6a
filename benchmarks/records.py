"""How the scripts here write what they measured."""

from __future__ import annotations

import json
from pathlib import Path


def write_record(path: Path, record: dict) -> None:
    """A JSON file with a line for each key, and one for each row of a list, so that a diff shows which changed."""
    path.write_text("{\n" + ",\n".join(f"{in_short(k)}: {_rows(v)}" for k, v in record.items()) + "\n}\n", "utf-8")


def _rows(value: object) -> str:
    if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        return "[\n" + ",\n".join(map(in_short, value)) + "\n]"
    return in_short(value)


def in_short(value: object) -> str:
    """JSON without blanks."""
    return json.dumps(value, separators=(",", ":"))
