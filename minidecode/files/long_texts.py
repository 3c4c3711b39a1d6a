"""A part of a text that has all the tokens that a model can hold, so that a long one is not read whole.

Tokenizers split a text at spaces before anything else, so what stands on one side of a space has the same tokens
whatever stands on the other. Here this is said of those splits alone of which it is known; other texts are read whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .gguf_tokenizer import QWEN2
from .tokenizer_classes import parts_of_pipeline

if TYPE_CHECKING:
    import tokenizers

SHORT = 2**16  # characters of a text that is read whole in any case
SPACE = "\u2581"  # what SentencePiece writes for a space
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
EXPRESSIONS = (QWEN2, LLAMA3)
WORDS = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}  # which leave out all white space
HARMLESS = {
    "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "Precompiled", "BertNormalizer", "Strip",
}  # fmt: skip
BETWEEN_WORDS = re.compile(r"(?<=[^\W_]) (?=[^\W_])")  # one space between letters or digits
BETWEEN_LINES = re.compile(r"(?<=[^\W_])[ \n](?=[^\W_])")


@dataclass(frozen=True)
class Borders:
    """The places where a text may be cut: in front of each match.

    drops: nor of what stands behind it, as a tokenizer that begins each text with a space puts it back. whole: tokens
    that may hold a border, or take the space beside them.
    """

    pattern: re.Pattern[str] = BETWEEN_WORDS
    drops: bool = False
    whole: tuple[str, ...] = ()

    def cut_to_beginning(self, text: str, count: int, tokens_of: Callable[[str], Collection[Any]]) -> str:
        """The beginning of a text, as far as a border behind its first `count` tokens; all of it without a border."""
        size = max(SHORT, 16 * count)
        while size < len(text):
            match = next(filter(self._is_clear_border, self.pattern.finditer(text, size)), None)
            if match is None:
                break
            beginning = text[: match.start()]
            if len(tokens_of(beginning)) >= count:
                return beginning
            size = 4 * match.end()
        return text

    def cut_to_ending(self, text: str, count: int, tokens_of: Callable[[str], Collection[Any]]) -> str:
        """The end of a text, from a border in front of its last `count` tokens; all of it without a border."""
        size = max(SHORT, 16 * count)
        while size < len(text):
            match = next(filter(self._is_clear_border, self.pattern.finditer(text, len(text) - size)), None)
            if match is None:
                size *= 4
                continue
            ending = text[match.end() if self.drops else match.start() :]
            if len(tokens_of(ending)) >= count:
                return ending
            size *= 4
        return text

    def _is_clear_border(self, match: re.Match[str]) -> bool:
        """Whether no token that stands for itself is near a border."""
        text, begin, end = match.string, match.start(), match.end()
        return not any(text.find(t, max(0, begin - len(t)), end + len(t)) >= 0 for t in self.whole)


def longest_token(backend: tokenizers.Tokenizer) -> int | None:
    """How many characters of a text a token takes at most, where all are made of bytes; None if it is not known."""
    from tokenizers import pre_tokenizers

    added, vocabulary = backend.get_added_tokens_decoder().values(), backend.get_vocab()
    kinds = {part["type"] for part in parts_of_pipeline(backend.pre_tokenizer)}
    keeps_all = backend.normalizer is None and kinds <= {"ByteLevel", "Split", "Digits"} and "ByteLevel" in kinds
    if not keeps_all or any(t.lstrip or t.rstrip for t in added):  # those take any number of spaces
        return None
    return max(map(len, vocabulary)) if vocabulary.keys() >= set(pre_tokenizers.ByteLevel.alphabet()) else None


def find_borders(backend: tokenizers.Tokenizer) -> Borders | None:
    """The places where texts may be cut for a tokenizer; None if they are not known."""
    borders = _borders_of_pipeline(backend)
    if borders is None:
        return None
    added = backend.get_added_tokens_decoder().values()
    whole = tuple(
        t.content for t in added
        if " " in t.content or t.content[:1].isalnum() or t.content[-1:].isalnum() or t.lstrip or t.rstrip
    )  # fmt: skip
    if backend.normalizer is not None and any(t.normalized and t.content in whole for t in added):
        return None  # what it looks like in a text is not known
    return Borders(borders.pattern, borders.drops, whole)


def _borders_of_pipeline(backend: tokenizers.Tokenizer) -> Borders | None:
    changes, splits = parts_of_pipeline(backend.normalizer), parts_of_pipeline(backend.pre_tokenizer)
    kinds = [part["type"] for part in splits]
    puts_space = any(part["type"] == "Prepend" and part["prepend"] == SPACE for part in changes)
    writes_space = any(part["type"] == "Replace" and part["content"] == SPACE for part in changes)
    if not all(map(_is_harmless, changes)) or not all(map(_is_known, splits)):
        return None
    if "ByteLevel" in kinds:
        uses_regex = any(part.get("use_regex") for part in splits) or "Split" in kinds
        begins = BETWEEN_WORDS if any(part.get("add_prefix_space") for part in splits) else BETWEEN_LINES
        return Borders(begins) if uses_regex and not (puts_space or writes_space) else None
    if "Metaspace" in kinds:
        return _metaspace_borders(backend, splits, kinds) if not (puts_space or writes_space) else None
    if WORDS & set(kinds):
        return Borders(BETWEEN_LINES) if not (puts_space or writes_space) else None
    if not splits and writes_space and _keeps_words_apart(backend):
        return Borders(drops=puts_space)
    return None


def _metaspace_borders(backend: tokenizers.Tokenizer, splits: list[dict[str, Any]], kinds: list[str]) -> Borders | None:
    part = next(part for part in splits if part["type"] == "Metaspace")
    if part["replacement"] != SPACE or not (part.get("split", True) or _keeps_words_apart(backend)):
        return None
    if "WhitespaceSplit" in kinds:  # each word is a text of its own
        return Borders(BETWEEN_LINES, drops=True) if part["prepend_scheme"] == "always" else None
    return Borders(drops=part["prepend_scheme"] != "never") if kinds == ["Metaspace"] else None


def _is_harmless(part: dict[str, Any]) -> bool:
    """Whether a part of a normalizer changes a space between two letters to nothing but a space."""
    if part["type"] == "Replace":
        pattern = part["pattern"]
        return pattern == {"Regex": " {2,}"} or pattern == {"String": " "} or " " not in pattern.get("String", " ")
    return part["type"] in HARMLESS or part["type"] == "Prepend"


def _is_known(part: dict[str, Any]) -> bool:
    """Whether a part of a pre-tokenizer splits in front of a space between two letters, and looks no further."""
    if part["type"] == "Split":
        return part["pattern"].get("Regex") in EXPRESSIONS and part["behavior"] == "Isolated"
    return part["type"] in WORDS | {"ByteLevel", "Metaspace", "Digits", "Punctuation"}


def _keeps_words_apart(backend: tokenizers.Tokenizer) -> bool:
    """Whether merges stop at a space: no token has one behind another character."""
    from tokenizers import models

    return isinstance(backend.model, models.BPE) and pieces_keep_words_apart(backend.get_vocab(with_added_tokens=False))


def pieces_keep_words_apart(pieces: Iterable[str]) -> bool:
    """Whether no piece of a vocabulary goes from one word into the next. A space has a piece of its own."""
    pieces = set(pieces)
    return SPACE in pieces and not any(SPACE in piece.lstrip(SPACE) for piece in pieces)
