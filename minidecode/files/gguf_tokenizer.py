"""The tokenizer of a GGUF file -> a tokenizer.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import shown, words_of
from .gguf_file import DamagedError, UnusableError, text_setting, whole_setting
from .tokenizer_checks import is_panic, without_panic_messages

if TYPE_CHECKING:
    import tokenizers

# Values of tokenizer.ggml.token_type: special tokens, and others that no merge makes.
UNKNOWN, CONTROL, ADDED = 2, 3, 4
ROLES = ("bos", "eos", "eot", "eom", "unknown", "padding")  # in the keys of special tokens
NO_TOKEN = (-1, 2**32 - 1)  # what a file says of a role that no token has
SPLITS = ("gpt-2", "smollm", "qwen2")  # values of tokenizer.ggml.pre
SPLIT_OF = {"qwen2": "qwen2"}  # architecture -> the only way in which its models split texts
# What Qwen2 keeps together before merges apply: contractions; letters with the mark before them; a digit; marks with
# the space before them and the line breaks behind; line breaks; spaces, without the last one before a word.
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def make_tokenizer(settings: dict[str, Any], architecture: str) -> tuple[tokenizers.Tokenizer, list[str]]:
    """(a byte-level BPE from `tokens`, `merges`, `token_type` and `pre`, what was assumed and may be wrong).

    `pre` says how a text is split before merges apply. smollm: each digit stands alone, and what is between is split
    as GPT-2 does. Digits go first, so that a space before a digit stays a token of its own. qwen2: by an expression,
    after NFC (an accent behind its letter becomes one character with it), as the model's own tokenizer does; llama.cpp
    leaves NFC out. A file of before May 2024 has no `pre`: a qwen2 has Qwen2's, and of a llama GPT-2's is assumed.

    Raises DamagedError on lists that do not fit each other, and on other kinds of tokenizers.
    """
    import tokenizers
    from tokenizers import AddedToken, decoders, models, normalizers

    kind, pre = (text_setting(settings, f"tokenizer.ggml.{name}") for name in ("model", "pre"))
    limits = []
    if kind != "gpt2":
        raise UnusableError(
            f"its tokenizer is of the kind {shown(kind, 40)}, and only gpt2 (byte-level BPE) is supported"
        )
    if pre is None:
        pre = SPLIT_OF.get(architecture, "gpt-2")
        if architecture not in SPLIT_OF:
            limits.append(
                f"it does not say how its tokenizer splits texts (tokenizer.ggml.pre), so {pre}'s way is taken: if the "
                "model is of another kind, its tokens are wrong, and a file that was converted after May 2024 is needed"
            )
    if pre not in SPLITS:
        raise UnusableError(
            f"its tokenizer splits texts as {shown(pre, 40)}, and only {', '.join(SPLITS)} are supported"
        )
    for flag in ("add_bos_token", "add_eos_token", "add_space_prefix"):
        if settings.get(f"tokenizer.ggml.{flag}", False) is not False:
            raise UnusableError(f"its tokenizer has {flag} set, which is not supported")
    tokens = _read_texts(settings, "tokens")
    vocabulary = {token: i for i, token in enumerate(tokens)}
    if len(vocabulary) < len(tokens):
        i, token = next((i, token) for i, token in enumerate(tokens) if vocabulary[token] != i)
        raise UnusableError(f"its tokenizer has the token {shown(token, 40)} twice, as {i} and as {vocabulary[token]}")
    if "tokenizer.ggml.token_type" in settings:
        types = _read_token_types(settings, len(tokens))
    else:
        types = _types_of_ids(settings, len(tokens))
        limits.append(
            "it does not say which tokens are special (tokenizer.ggml.token_type), so those are that its settings name "
            "as bos, eos, eot, eom, unknown or padding"
        )
    merges = [_checked_merge(merge, vocabulary) for merge in _read_texts(settings, "merges")]
    added = [(i, int(t)) for i, t in enumerate(types) if t in (UNKNOWN, CONTROL, ADDED) and tokens[i]]
    try:
        with without_panic_messages():
            backend = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
            backend.pre_tokenizer = _pre_tokenizer_of(pre)
            if pre == "qwen2":
                backend.normalizer = normalizers.NFC()
            backend.decoder = decoders.ByteLevel()
            backend.add_tokens([AddedToken(tokens[i], special=t != ADDED, normalized=False) for i, t in added])
    except BaseException as error:  # the library raises Exception itself, and panics
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise DamagedError(f"its lists do not make a tokenizer: {words_of(error)}") from None
    return backend, limits


def _pre_tokenizer_of(pre: str) -> tokenizers.pre_tokenizers.PreTokenizer:
    """What splits a text before merges apply, by a name of SPLITS."""
    from tokenizers import Regex, pre_tokenizers

    if pre == "gpt-2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pre == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        return pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    pieces = pre_tokenizers.Split(Regex(QWEN2), "isolated")
    return pre_tokenizers.Sequence([pieces, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _read_texts(settings: dict[str, Any], name: str) -> list[str]:
    texts = settings.get(f"tokenizer.ggml.{name}")
    if not isinstance(texts, list) or not texts:
        raise DamagedError(f"tokenizer.ggml.{name} should be a list of texts, not {shown(texts, 40)}")
    return texts


def _read_token_types(settings: dict[str, Any], count: int) -> np.ndarray:
    """A number for each token, which says what it is."""
    types = settings["tokenizer.ggml.token_type"]
    if not isinstance(types, np.ndarray) or types.dtype.kind not in "iu" or len(types) != count:
        raise DamagedError(f"tokenizer.ggml.token_type should be an integer for each of {count} tokens")
    return types


def _types_of_ids(settings: dict[str, Any], count: int) -> np.ndarray:
    """The types of tokens of a file that gives none: those are special that it names by their role."""
    types = np.ones(count, np.int32)
    for role in ROLES:
        if (i := id_of_role(settings, role, count)) is not None:
            types[i] = CONTROL
    return types


def id_of_role(settings: dict[str, Any], role: str, count: int) -> int | None:
    """The id of the token of a role; None where the file names none, or none of its `count` tokens."""
    i = _id_of(settings, role)
    return i if 0 <= i < count else None


def _id_of(settings: dict[str, Any], role: str) -> int:
    """What the file says of a role; -1 where it says nothing. Raises DamagedError on what is no whole number."""
    return whole_setting(settings, _key_of_role_id(role), -(2**63), 2**64, -1)


def _key_of_role_id(role: str) -> str:
    return f"tokenizer.ggml.{role}_token_id"


def missing_role_tokens(settings: dict[str, Any], count: int) -> list[str]:
    """What to say of roles whose tokens the file has not. llama.cpp goes on without them, too."""
    ids = {_key_of_role_id(role): _id_of(settings, role) for role in ROLES}
    return [
        f"{key} {i} is none of its {count} tokens, so it is ignored: if texts do not end where they should, give "
        "eos_token_id yourself"
        for key, i in ids.items()
        if i not in NO_TOKEN and not 0 <= i < count
    ]


def _checked_merge(merge: str, vocabulary: dict[str, int]) -> tuple[str, str]:
    first, space, second = merge.partition(" ")
    if not space or first not in vocabulary or second not in vocabulary or first + second not in vocabulary:
        raise DamagedError(f"the merge {shown(merge, 60)} does not fit the tokens")
    return first, second
