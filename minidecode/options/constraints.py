"""The options regex and json_schema: what may be given, and which of the two is."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from ..errors import OptionError

MOST_OF_SCHEMA = 2**24  # bytes of a file


def checked_regex(value: Any) -> str | None:
    """Raises OptionError unless it is a text that is not empty, or None."""
    if value is None:
        return None
    if not (isinstance(value, str) and value):
        raise OptionError(f"regex must be a text that is not empty, not {value!r:.80}")
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise OptionError("regex holds half a surrogate pair, which is no text: leave it out")
    return value


def checked_schema(value: Any) -> str | None:
    """A JSON schema as JSON text: of a dict, of JSON text, or of the file at a path. Raises OptionError on others."""
    if value is None:
        return None
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except (TypeError, ValueError) as error:
            raise OptionError(f"json_schema holds what JSON does not ({error}): use texts, numbers, lists") from None
        except RecursionError:
            raise OptionError("json_schema is nested too deep: make it simpler") from None
    if not isinstance(value, str | Path):
        raise OptionError(f"json_schema must be a dict, JSON text or the path of a file, not {value!r:.80}")
    where, text = "json_schema", str(value)
    if isinstance(value, Path) or not text.lstrip().startswith("{"):
        where = f"json_schema {text:.80}"
        try:
            if stat.S_ISREG((status := os.stat(value)).st_mode) and status.st_size <= MOST_OF_SCHEMA:
                text = Path(value).read_text(encoding="utf-8")
            else:  # a device or a pipe may have no end
                raise ValueError(f"no file of at most {MOST_OF_SCHEMA:,} bytes")
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path, or no UTF-8 in the file
            reason = getattr(error, "strerror", None) or error
            raise OptionError(f"{where} cannot be read ({reason}): give a dict, JSON text or a file") from None
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{where} is no JSON ({error}): mend it") from None
    if not isinstance(schema, dict):
        raise OptionError(f"{where} must hold a JSON object, not {text.strip()!r:.80}")
    return json.dumps(schema)
