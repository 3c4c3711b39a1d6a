"""What the records of `minidecode generate` depend on, by name, so that --resume goes on with no others."""

from __future__ import annotations

import contextlib
from typing import Any

from ..lines import depends
from .prompts import Prompts


def records_depend_on(model: Any, prompts: Prompts, settings: dict[str, Any], as_json: bool) -> dict[str, Any]:
    """Name -> value, as JSON holds it, or a hash of it. settings: what `generate_lines` takes."""
    on_error = settings["on_error"]
    return {
        "input": _hash_of_lines(prompts), "jsonl": prompts.is_jsonl, "json": as_json,
        **depends.records_depend_on(model, settings),
        # A recorded error names the file.
        "on_error": f"record ({prompts.source})" if on_error == "record" else on_error,
    }  # fmt: skip


def _hash_of_lines(prompts: Prompts) -> str:
    if prompts.again is None:
        return depends.hash_parts(str(line).encode("utf-8", "surrogatepass") for line in prompts.lines)
    with contextlib.closing(prompts.again()) as lines:
        return depends.hash_parts(lines)
