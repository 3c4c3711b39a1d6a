"""The page: its frame, style, script and data in one HTML text, which asks no network for anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...errors import InputError

HERE = Path(__file__).parent
MOST_BYTES = 3_000_000
# Inside <script>, "<" could end the data. JSON reads these escapes as the characters that they stand for.
ESCAPES = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def html_page(data: dict[str, Any]) -> str:
    """The HTML text. Raises InputError if it has more than MOST_BYTES."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(str.maketrans(ESCAPES))
    parts = {
        "style": _file_text("picture.css") + _file_text("page.css"),
        "script": _file_text("picture.js") + _file_text("page.js"),
        "data": text,
    }
    html = ""
    for piece in _file_text("page.html").split("<!-- here: "):
        name, mark, rest = piece.partition(" -->")
        html += parts[name] + rest if mark and name in parts else piece
    if (size := len(html.encode("utf-8"))) > MOST_BYTES:
        raise InputError(
            f"the page would have {size / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:.0f}: use fewer new tokens, beams or"
            " plans, or a shorter prompt"
        )
    return html


def _file_text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
