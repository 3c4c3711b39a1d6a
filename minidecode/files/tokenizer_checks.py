"""What a tokenizer.json may make the `tokenizers` library do, checked before the library reads it.

The library trusts its files: a few of its parts can make a short text fill the memory, or end the whole process.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import math
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, shown

MOST_GROWTH = 1000  # times that a normalizer or a decoder may make a text longer; NFKC and a charsmap stay below 100
MOST_SPECIAL = 1000  # special tokens that a template may put around a text; BART's has two
_QUIET = threading.Lock()


def check_tokenizer(path: Path, fields: dict[str, Any]) -> float:
    """How many times longer the normalizer may make a text. Raises CheckpointError on what should not be loaded.

    Parts of a wrong kind are left to the library, which says what is wrong with them.
    """
    try:
        for part in ("normalizer", "decoder"):
            if max_growth(path, fields.get(part)) > MOST_GROWTH:
                raise CheckpointError(
                    f"{path}: its {part} may make a text more than {MOST_GROWTH} times as long: use another tokenizer"
                )
        if _count_template_tokens(fields.get("post_processor")) > MOST_SPECIAL:
            raise CheckpointError(
                f"{path}: its post_processor adds more than {MOST_SPECIAL} tokens to a text: use another tokenizer"
            )
        _check_merges(path, fields.get("model"))
        vocabulary = model.get("vocab") if isinstance(model := fields.get("model"), dict) else None
        if vocabulary in ({}, []):
            raise CheckpointError(f"{path}: its vocabulary is empty: download the file again")
        check_ids(path, [*_tokens_and_ids(vocabulary), *_added_tokens_and_ids(fields.get("added_tokens"))])
        return max_growth(path, fields.get("normalizer"))
    except RecursionError:
        raise CheckpointError(f"{path}: its parts are nested too deeply: use another tokenizer") from None


def check_ids(path: Path, tokens: Iterable[tuple[str, Any]]) -> None:
    """Raises CheckpointError where two tokens have one id, of which only one could be decoded, or a token has none."""
    holder: dict[int, str] = {}
    for token, i in tokens:
        if isinstance(i, bool) or not isinstance(i, int) or i < 0:
            raise CheckpointError(
                f"{path}: the id of {shown(token, 40)} must be an integer from 0 up, not {shown(i, 40)}: use the "
                "tokenizer that the model was trained with"
            )
        if holder.setdefault(i, token) != token:
            raise CheckpointError(
                f"{path}: {shown(holder[i], 40)} and {shown(token, 40)} have the same id {shown(i, 40)}: use the "
                "tokenizer that the model was trained with"
            )


def _tokens_and_ids(vocabulary: Any) -> list[tuple[str, Any]]:
    """(token, id) of a model's vocabulary: by name, or for Unigram a list of [token, score] by id."""
    if isinstance(vocabulary, dict):
        return list(vocabulary.items())
    each = enumerate(vocabulary) if isinstance(vocabulary, list) else ()
    return [(pair[0], i) for i, pair in each if isinstance(pair, list) and pair and isinstance(pair[0], str)]


def _added_tokens_and_ids(tokens: Any) -> list[tuple[str, Any]]:
    each = [token for token in tokens if isinstance(token, dict)] if isinstance(tokens, list) else []
    return [(token["content"], token.get("id")) for token in each if isinstance(token.get("content"), str)]


def max_growth(path: Path, part: Any) -> float:
    """How many times longer a part of a tokenizer may make a text, at most; kinds are known by their fields."""
    if not isinstance(part, dict):
        return 1.0
    each = [p for name in ("normalizers", "decoders") if isinstance(part.get(name), list) for p in part[name]]
    times = math.prod(max_growth(path, p) for p in each)
    content, pattern = part.get("content"), part.get("pattern")
    if isinstance(content, str) and isinstance(pattern, dict):
        replaced = pattern.get("String")
        if isinstance(replaced, str) and replaced:
            times *= max(1.0, len(content) / len(replaced))
        else:  # an expression can match nothing, before each character
            times *= 1.0 + len(content)
    if isinstance(part.get("prepend"), str):
        times *= 1.0 + len(part["prepend"])
    if isinstance(part.get("precompiled_charsmap"), str):
        times *= _longest_replacement(path, part["precompiled_charsmap"])
    return times


def _longest_replacement(path: Path, charsmap: str) -> int:
    """Bytes of the longest text that a charsmap of SentencePiece puts in the place of a character.

    Its first four bytes give the length of a table, which the library makes room for before it looks further.
    """
    with contextlib.suppress(binascii.Error, ValueError):
        data = base64.b64decode(charsmap, validate=True)
        end = 4 + int.from_bytes(data[:4], "little")
        if 4 <= end <= len(data):
            return max(1, *map(len, data[end:].split(b"\0")), 0)
    raise CheckpointError(f"{path}: its precompiled_charsmap is cut off or damaged: download the file again")


def _count_template_tokens(part: Any) -> int:
    """The special tokens that a template puts around a text."""
    if not isinstance(part, dict):
        return 0
    each = part.get("processors") if isinstance(part.get("processors"), list) else []
    count = sum(map(_count_template_tokens, each))
    single, special = part.get("single"), part.get("special_tokens")
    if isinstance(single, list) and isinstance(special, dict):
        for piece in single:
            named = piece.get("SpecialToken") if isinstance(piece, dict) else None
            token = special.get(named["id"]) if isinstance(named, dict) and isinstance(named.get("id"), str) else None
            ids = token.get("ids") if isinstance(token, dict) else None
            count += len(ids) if isinstance(ids, list) else 0
    return count


def _check_merges(path: Path, model: Any) -> None:
    """The second part of each merge begins with the prefix, which the library cuts off without a look."""
    prefix = model.get("continuing_subword_prefix") if isinstance(model, dict) else None
    merges = model.get("merges") if isinstance(model, dict) else None
    if not isinstance(prefix, str) or not prefix or not isinstance(merges, list):
        return
    for merge in merges:
        pair = merge.split(" ") if isinstance(merge, str) else merge
        second = pair[-1] if isinstance(pair, list) and pair else None
        if not isinstance(second, str) or not second.startswith(prefix):
            raise CheckpointError(
                f"{path}: the merge {merge!r:.60} does not go on with continuing_subword_prefix {prefix!r:.30}: its "
                "parts do not belong together"
            )


def has_expressions(fields: dict[str, Any]) -> bool:
    """Whether a tokenizer has regular expressions of its own; on some texts the library gives up on one, and panics."""
    return '"Regex"' in json.dumps([fields.get(part) for part in ("normalizer", "pre_tokenizer", "decoder")])


def is_panic(error: BaseException) -> bool:
    """Whether an error is the library's own failure, which is no Exception to Python."""
    return type(error).__name__ == "PanicException"


@contextlib.contextmanager
def without_panic_messages() -> Iterator[None]:
    """The library writes of a panic to standard error by itself, line after line, before it raises: not here."""
    with _QUIET:  # or else the second to enter would take the first one's nothing for standard error
        try:
            kept = os.dup(2)
        except OSError:  # there is no standard error
            kept = None
        if kept is not None:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 2)
            os.close(nothing)
        try:
            yield
        finally:
            if kept is not None:
                os.dup2(kept, 2)
                os.close(kept)
