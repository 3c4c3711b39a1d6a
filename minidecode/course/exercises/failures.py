"""What code raised, or what ended its process: the mistake and where it happened."""

from __future__ import annotations

from typing import Any

from . import sandbox

MISTAKES = {  # what code raised -> the mistake
    "NotImplementedError": "not-started", "MemoryError": "memory", "SystemExit": "exit", "PermissionError": "forbidden",
}  # fmt: skip


def line_of_error_in_words(error: dict[str, Any]) -> str:
    """The line where code raised, to begin a sentence with; "" if it is not known."""
    return f"line {error['line']}: " if error.get("line") else ""


def why_failed(failed: sandbox.Failed) -> str:
    words = {"time": "an endless loop, or far too slow", "ended": "something ended the process"}
    return f" ({words[failed.kind]})" if failed.kind in words else ""


def load_error(error: Any) -> tuple[str, str]:
    """What a file raised that was loaded: the mistake, and in words."""
    error = error if isinstance(error, dict) else {}
    mistake = MISTAKES.get(str(error.get("type")), "cannot-run")
    return mistake, f"{line_of_error_in_words(error)}{error.get('type')}: {error.get('message')}"
