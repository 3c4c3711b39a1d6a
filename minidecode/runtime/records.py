"""One line of an input: parsed from text or JSON, and filled in by each stage that it passes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import InputError, LineError

if TYPE_CHECKING:
    import numpy as np


@dataclass
class Line:
    """One line on its way: each stage fills in what it makes. `texts`, `token_ids` and `scores` are best first."""

    number: int  # in the input, from 1
    given: Any
    record: dict[str, Any] | None = None  # the line as an object: {"prompt": text} and what else was in it
    ids: np.ndarray | None = None  # the tokens of the prompt, or of the source
    target: np.ndarray | None = None  # where scores are asked for: the tokens of what is scored given the prompt
    batch: int = 0  # from 1
    copy: int = 0  # when sampling: how many lines before had the same prompt, which tells their samples apart
    texts: list[str] = field(default_factory=list)
    token_ids: list[np.ndarray] = field(default_factory=list)
    scores: Any = field(default_factory=list)  # a number for each of the texts; or the `Scores` of this one
    rendered: Any = None  # what `render` made of it
    error: LineError | None = None  # and then nothing else counts


def read_record(given: str | bytes | dict[str, Any], jsonl: bool, where: str, what: str = "prompt") -> dict[str, Any]:
    """A line as an object with a "prompt"; what: another word for it. Raises InputError that begins with `where`."""
    if isinstance(given, dict):
        return checked_record(given, where)
    is_of_a_file = isinstance(given, bytes)
    if is_of_a_file:
        try:
            given = given.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise InputError(f"{where} is not UTF-8: byte 0x{byte:02x}; convert it to UTF-8 first") from None
    if not isinstance(given, str):
        raise InputError(f"{where} is no text, but {given!r:.80}")
    if not given.strip():
        remedy = f"each line is a {what}; delete it" if is_of_a_file else "give it some text, or leave it out"
        raise InputError(f"{where} is blank: {remedy}")
    if not jsonl:
        return {"prompt": given}
    try:
        record = json.loads(given, parse_constant=_no_constant)
        json.dumps(record, ensure_ascii=False).encode()  # its fields go out again: half a surrogate pair could not
    except json.JSONDecodeError as error:
        raise InputError(f"{where} is not JSON: {error.msg}, at column {error.colno}") from None
    except UnicodeEncodeError:
        raise InputError(f"{where} holds half a surrogate pair (\\ud800 to \\udfff): that is no text") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not JSON: {error}") from None
    return checked_record(record, where)


def checked_record(record: Any, where: str) -> dict[str, Any]:
    """The same, if it is an object with a text under "prompt"."""
    if not isinstance(record, dict) or not isinstance(record.get("prompt"), str):
        raise InputError(f'{where} should be an object with a text under "prompt", as in {{"prompt": "Once"}}')
    return record


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number there")
