"""Tables of two columns of the guide's "Coming from" pages: code there, and code here."""

from __future__ import annotations

import ast
import re
from pathlib import Path

GUIDE = Path(__file__).parents[1] / "docs" / "guide"


def two_columns(page: str) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """((their code, the words behind it), (ours, the words behind it)) of each row of the tables in a page."""
    text = (GUIDE / page).read_text(encoding="utf-8")
    return [(cells[:2], cells[2:]) for cells in re.findall(r"^\| `([^`]+)`([^|]*) \| `([^`]+)`([^|]*) \|$", text, re.M)]


def literal(code: str) -> dict:
    """The arguments of `name=value, name=value`."""
    call = ast.parse(f"f({code})", mode="eval").body
    return {word.arg: ast.literal_eval(word.value) for word in call.keywords}
