"""Results that were recorded on a quiet machine, for figures and sums of a chapter."""

from __future__ import annotations

import json
from typing import Any

from ..errors import InputError
from .chapters import folder


def recorded(name: str) -> dict[str, Any]:
    """What `benchmarks/results/NAME.json` holds; of an installed package, of those that its chapters read."""
    beside = folder().parent
    for place in (beside / "benchmarks" / "results", beside / "results"):
        if (path := place / f"{name}.json").is_file():
            return json.loads(path.read_text(encoding="utf-8"))
    raise InputError(f"there is no recorded result {name!r}: it lies in benchmarks/results/ of a checkout")
