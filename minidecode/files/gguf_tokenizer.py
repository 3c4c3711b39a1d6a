"""The tokenizer of a GGUF file -> a tokenizer.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .gguf_file import DamagedError, UnusableError
from .tokenizer_checks import is_panic, without_panic_messages

if TYPE_CHECKING:
    import tokenizers

CONTROL, ADDED = 3, 4  # values of tokenizer.ggml.token_type: special tokens, and others that no merge makes
SPLITS = ("gpt-2", "smollm", "qwen2")  # values of tokenizer.ggml.pre
# What Qwen2 keeps together before merges apply: contractions; letters with the mark before them; a digit; marks with
# the space before them and the line breaks behind; line breaks; spaces, without the last one before a word.
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def tokenizer_of(settings: dict[str, Any]) -> tokenizers.Tokenizer:
    """A byte-level BPE from `tokens`, `merges`, `token_type` and `pre`.

    `pre` says how a text is split before merges apply. smollm: each digit stands alone, and what is between is split
    as GPT-2 does. Digits go first, so that a space before a digit stays a token of its own. qwen2: by an expression,
    after NFC (an accent behind its letter becomes one character with it), as the model's own tokenizer does; llama.cpp
    leaves NFC out.

    Raises DamagedError on lists that do not fit each other, and on other kinds of tokenizers.
    """
    import tokenizers
    from tokenizers import AddedToken, decoders, models, normalizers

    kind, pre = settings.get("tokenizer.ggml.model"), settings.get("tokenizer.ggml.pre", "gpt-2")
    if kind != "gpt2":
        raise UnusableError(f"its tokenizer is of the kind {kind!r:.40}, and only gpt2 (byte-level BPE) is supported")
    if pre not in SPLITS:
        raise UnusableError(f"its tokenizer splits texts as {pre!r:.40}, and only {', '.join(SPLITS)} are supported")
    for flag in ("add_bos_token", "add_eos_token", "add_space_prefix"):
        if settings.get(f"tokenizer.ggml.{flag}", False) is not False:
            raise UnusableError(f"its tokenizer has {flag} set, which is not supported")
    tokens, types = _texts(settings, "tokens"), _types(settings)
    vocabulary = {token: i for i, token in enumerate(tokens)}
    if len(vocabulary) < len(tokens):
        raise DamagedError("its tokenizer has the same token twice")
    merges = [_merge(merge, vocabulary) for merge in _texts(settings, "merges")]
    added = [(i, int(t)) for i, t in enumerate(types) if t in (CONTROL, ADDED)]
    try:
        with without_panic_messages():
            backend = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
            backend.pre_tokenizer = _split(pre)
            if pre == "qwen2":
                backend.normalizer = normalizers.NFC()
            backend.decoder = decoders.ByteLevel()
            backend.add_tokens([AddedToken(tokens[i], special=t == CONTROL, normalized=False) for i, t in added])
    except BaseException as error:  # the library raises Exception itself, and panics
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise DamagedError(f"its lists do not make a tokenizer: {error}") from None
    return backend


def _split(pre: str) -> tokenizers.pre_tokenizers.PreTokenizer:
    """What splits a text before merges apply, by a name of SPLITS."""
    from tokenizers import Regex, pre_tokenizers

    if pre == "gpt-2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pre == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        return pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    pieces = pre_tokenizers.Split(Regex(QWEN2), "isolated")
    return pre_tokenizers.Sequence([pieces, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _texts(settings: dict[str, Any], name: str) -> list[str]:
    texts = settings.get(f"tokenizer.ggml.{name}")
    if not isinstance(texts, list) or not texts or not all(texts):
        raise DamagedError(f"tokenizer.ggml.{name} should be a list of texts, none of them empty")
    return texts


def _types(settings: dict[str, Any]) -> np.ndarray:
    """A number for each token; a file without them has special tokens in no list, and so is refused."""
    types, count = settings.get("tokenizer.ggml.token_type"), len(_texts(settings, "tokens"))
    if not isinstance(types, np.ndarray) or types.dtype.kind not in "iu" or len(types) != count:
        raise DamagedError(f"tokenizer.ggml.token_type should be an integer for each of {count} tokens")
    return types


def _merge(merge: str, vocabulary: dict[str, int]) -> tuple[str, str]:
    first, space, second = merge.partition(" ")
    if not space or first not in vocabulary or second not in vocabulary or first + second not in vocabulary:
        raise DamagedError(f"the merge {merge!r:.60} does not fit the tokens")
    return first, second
