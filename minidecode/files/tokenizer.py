"""Text <-> token ids: byte-level BPE and WordPiece through the `tokenizers` library."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CheckpointError, InputError, shown, words_of
from ..search.stopping import cut_at_stop, may_begin_stop
from .chat import ChatTemplate, Message
from .stored import MOST_OF_TEXT, check_regular, read_json
from .tokenizer_checks import check_ids, check_tokenizer, has_expressions, is_panic, without_panic_messages

if TYPE_CHECKING:
    import tokenizers

# Special tokens by role, where tokenizer_config.json does not name others.
GPT2_TOKENS = dict.fromkeys(("bos", "eos", "unk", "pad"), "<|endoftext|>")
BART_TOKENS = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "pad": "<pad>", "mask": "<mask>"}
BERT_TOKENS = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
PROPHETNET_TOKENS = {"unk": "[UNK]", "sep": "[SEP]", "x_sep": "[X_SEP]", "pad": "[PAD]", "mask": "[MASK]"}
# Classes of transformers that read add_prefix_space beside a tokenizer.json; PreTrainedTokenizerFast does not.
MOST_CHARACTERS = 2**28  # of a text as the normalizer may leave it
FOLLOW_SETTINGS = {f"{family}Tokenizer{kind}" for family in ("GPT2", "Bart", "Roberta") for kind in ("", "Fast")}


@dataclass(frozen=True)
class Encoded:
    """A text as an encoder reads it: of each token its id, which of two texts it is of, and where it stands there."""

    ids: np.ndarray
    types: np.ndarray
    places: list[tuple[int, int] | None]  # characters of its text; None of a special token. Empty if not asked for


class Tokenizer:
    """`encode` and `decode` for one model folder. Any Unicode text survives the round trip."""

    def __init__(
        self, backend: tokenizers.Tokenizer, growth: float = 1.0, may_panic: bool = False,
        chat_template: ChatTemplate | None = None,
    ):  # fmt: skip
        """growth: how many times longer the normalizer may make a text. may_panic: expressions of its own are in it."""
        self._backend, self._growth, self._may_panic = backend, growth, may_panic
        self.chat_template = chat_template

    @classmethod
    def from_folder(
        cls, folder: Path, words: str = "vocab.txt", roles: dict[str, str] = BERT_TOKENS
    ) -> Tokenizer | None:  # fmt: skip
        """tokenizer.json, or vocab.json with merges.txt, or a list of words; None if the folder has none of them.

        words, roles: the file of that list, and the special tokens of such a model. Tokens that other files add
        (`_added_tokens`) are added. Raises CheckpointError if a file cannot be read.
        """
        settings, growth, may_panic = _settings(folder, "tokenizer_config.json"), 1.0, False
        if (path := folder / "tokenizer.json").exists():
            fields = read_json(path)  # names what is wrong with the file better than the library does
            growth, may_panic = check_tokenizer(path, fields), has_expressions(fields)
            backend = _read(path, settings)
        elif (folder / "vocab.json").exists() or (folder / "merges.txt").exists():
            backend = _read_bpe(folder, settings)
        elif (folder / words).exists():
            backend = _read_wordpiece(folder, settings, words, roles)
        else:
            return None
        _add_tokens(backend, _added_tokens(folder, settings), folder)
        return cls(backend, growth, may_panic, ChatTemplate.from_folder(folder))

    def __call__(self, text: str | Sequence[str]) -> dict[str, Any]:
        """{"input_ids": ids, "attention_mask": ones}, for one text or a list for each of several: `generate` takes it.

        As in transformers, without padding. Raises InputError as `encode` does.
        """
        if isinstance(text, str):
            ids = self.encode(text).tolist()
            return {"input_ids": ids, "attention_mask": [1] * len(ids)}
        if not isinstance(text, list | tuple) or not all(isinstance(t, str) for t in text):
            raise InputError(f"a tokenizer takes a text or a list of texts, not {text!r:.80}")
        rows = [self.encode(t).tolist() for t in text]
        return {"input_ids": rows, "attention_mask": [[1] * len(row) for row in rows]}

    def __repr__(self) -> str:
        return f"Tokenizer({self._backend.get_vocab_size():,} tokens, special ids {self.special_ids})"

    def encode_chat(self, messages: Sequence[Message]) -> np.ndarray:
        """Token ids of a conversation, up to where the answer begins, by the model's chat template.

        The template alone says which special tokens stand where. As in transformers, a message that holds the text of
        a special token holds that token. Raises InputError without a template, and as `ChatTemplate.render` does.
        """
        if self.chat_template is None:
            raise InputError("this model has no chat template: use a model that was trained to chat, or plain prompts")
        return self.encode(self.chat_template.render(messages), add_special_tokens=False)

    def encode(self, text: str, add_special_tokens: bool = True) -> np.ndarray:
        """Token ids, int64. Raises InputError on half a surrogate pair: that is no Unicode text."""
        return np.array(self._encoding(text, None, add_special_tokens).ids, dtype=np.int64)

    def encode_for_reading(self, text: str, second: str | None = None, with_places: bool = False) -> Encoded:
        """What an encoder reads of a text, or of two that belong together. Raises InputError as `encode` does."""
        found, places = self._encoding(text, second, True), []
        ids, types = np.array(found.ids, dtype=np.int64), np.array(found.type_ids, dtype=np.int64)
        if with_places:
            each = zip(found.offsets, found.special_tokens_mask, strict=True)
            places = [None if is_special else place for place, is_special in each]
        return Encoded(ids, types, places)

    def _encoding(self, text: str, second: str | None, add_special_tokens: bool) -> tokenizers.Encoding:
        """The library's, of checked texts."""
        for each in (text,) if second is None else (text, second):
            check_text(each)
            if len(each) * self._growth > MOST_CHARACTERS:
                raise InputError(f"the text has {len(each):,} characters, too many for this tokenizer: shorten it")
        encode = functools.partial(self._backend.encode, add_special_tokens=add_special_tokens)
        return self._ask("encode a text", encode, text, second)

    def encode_target(self, text: str) -> np.ndarray:
        """Token ids of a target, as `encode` gives them: the source's and the target's tokens are the same here."""
        return self.encode(text)

    def decode(self, ids, keep_special: bool = False) -> str:
        """The text of token ids, special tokens left out; bytes that form no character become U+FFFD."""
        ids = [int(i) for i in ids]
        return self._ask("decode tokens", self._backend.decode, ids, skip_special_tokens=not keep_special)

    def _ask(self, what: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What the library returns. Raises InputError where it cannot: a text may hold what its files do not know."""
        try:
            with without_panic_messages() if self._may_panic else contextlib.nullcontext():
                return function(*arguments, **options)
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            raise InputError(f"the model's tokenizer cannot {what} ({error}): use another text, or mend it") from None

    def count_bytes(self, ids) -> int | None:
        """Bytes of UTF-8 that the tokens stand for, special ones for none; None if the tokens are not made of bytes.

        In a byte-level vocabulary a character is a byte; tokens that were added to it are written as they are.
        """
        from tokenizers import decoders

        if not isinstance(self._backend.decoder, decoders.ByteLevel):
            return None
        added = self._backend.get_added_tokens_decoder()
        sizes = {i: 0 if t.special else len(t.content.encode()) for i, t in added.items()}
        for i in {int(i) for i in ids} - set(sizes):
            sizes[i] = len(self._backend.id_to_token(i) or "")  # a model may have more ids than its tokenizer
        return sum(sizes[int(i)] for i in ids)

    def as_json(self) -> str:
        """All of it in one text, the same for tokenizers that do the same."""
        return self._backend.to_str()

    @functools.cached_property
    def special_ids(self) -> list[int]:
        """The ids that `decode` leaves out."""
        return [i for i, token in self._backend.get_added_tokens_decoder().items() if token.special]

    @property
    def size(self) -> int:
        """How many ids stand for something; a model's vocabulary may be padded to more."""
        return self._backend.get_vocab_size(with_added_tokens=True)

    def most_tokens(self, count: int) -> int | None:
        """How many tokens, special ones aside, `count` bytes may come from; None if tokens are not made of bytes."""
        from tokenizers import decoders

        return count if isinstance(self._backend.decoder, decoders.ByteLevel) else None

    def token_to_id(self, token: str) -> int | None:
        return self._backend.token_to_id(token)


def check_text(text: str) -> None:
    """Raises InputError on half a surrogate pair: that is no Unicode text."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        what = f"byte 0x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"the lone surrogate U+{code:04X}"
        raise InputError(f"the text is not valid UTF-8: {what} at character {error.start}") from None


class TextStream:
    """Text as it grows, token by token.

    Held back are a character until all its bytes are there, and the end of the text while it may begin a stop string.
    """

    def __init__(self, tokenizer: Tokenizer, stop_strings: Sequence[str] = (), keep_stop_strings: bool = False):
        self._tokenizer, self._ids, self._shown = tokenizer, [], 0
        self._stops, self._keep = stop_strings, keep_stop_strings

    def push(self, token_id: int) -> str:
        """The text that this token completes; may be empty."""
        self._ids.append(token_id)
        text = self._tokenizer.decode(self._ids)
        if text.endswith("\ufffd"):
            return ""
        text = cut_at_stop(text, self._stops, self._keep)
        return self._advance(text[: len(text) - may_begin_stop(text, self._stops)])

    def finish(self) -> str:
        """What was still held back."""
        return self._advance(cut_at_stop(self._tokenizer.decode(self._ids), self._stops, self._keep))

    def _advance(self, text: str) -> str:
        new = text[self._shown :]
        self._shown += len(new)
        return new


def _settings(folder: Path, file: str) -> dict:
    return read_json(folder / file) if (folder / file).exists() else {}


def _added_tokens(folder: Path, settings: dict) -> list[tuple[int, dict]]:
    """(id, what the token is), by id: those of added_tokens.json (the older custom) and of tokenizer_config.json."""
    older, newer = _settings(folder, "added_tokens.json"), settings.get("added_tokens_decoder")
    pairs = [(id, {"content": token}) for token, id in older.items()]
    added = {}
    for id, token in pairs + (list(newer.items()) if isinstance(newer, dict) else []):
        if isinstance(id, str) and id.isascii() and id.isdecimal() and len(id) < 10:  # as the names of JSON are
            id = int(id)
        if isinstance(id, bool) or not isinstance(id, int) or not 0 <= id < 2**31:
            raise CheckpointError(f"{folder}: an added token has an id that is no integer from 0 up: {shown(id, 40)}")
        added[id] = token
    return sorted(added.items(), key=lambda pair: pair[0])


def _add_tokens(backend: tokenizers.Tokenizer, added: list[tuple[int, dict]], folder: Path) -> None:
    """Adds each token under its id. Where the vocabulary holds it, how it takes the space around it is set."""
    for id, described in added:
        token = _token(described, folder)
        (backend.add_special_tokens if token.special else backend.add_tokens)([token])
        if backend.token_to_id(token.content) != id:
            raise CheckpointError(
                f"{folder}: the added token {shown(token.content)} should have id {id}, and the vocabulary leaves it "
                f"{backend.token_to_id(token.content)}: its files do not belong together"
            )


def _token(described: dict, folder: Path) -> tokenizers.AddedToken:
    from tokenizers import AddedToken

    flags = ("special", "lstrip", "rstrip", "normalized", "single_word")
    content = described.get("content") if isinstance(described, dict) else None
    if not isinstance(content, str) or any("\ud800" <= c <= "\udfff" for c in content):
        raise CheckpointError(f"{folder}: an added token has no text: {shown(described)}")
    return AddedToken(described["content"], **{flag: bool(described[flag]) for flag in flags if flag in described})


def _read(path: Path, settings: dict) -> tokenizers.Tokenizer:
    import tokenizers

    try:
        with without_panic_messages():
            backend = tokenizers.Tokenizer.from_file(str(path))
            backend.no_truncation()  # a file may hold what its maker's last call asked for, or room for 1e9 tokens
            backend.no_padding()
            with contextlib.suppress(Exception):  # not every text can be encoded; but none should make it panic
                backend.encode("a b")
    except BaseException as error:  # the library raises Exception itself, and panics
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise CheckpointError(f"{path} cannot be read as a tokenizer: {words_of(error)}") from None
    is_byte_level = isinstance(backend.pre_tokenizer, tokenizers.pre_tokenizers.ByteLevel)
    if "add_prefix_space" in settings and is_byte_level and str(settings.get("tokenizer_class")) in FOLLOW_SETTINGS:
        backend.pre_tokenizer.add_prefix_space = bool(settings["add_prefix_space"])
    return backend


def _read_bpe(folder: Path, settings: dict) -> tokenizers.Tokenizer:
    """The GPT-2 layout of old: a vocabulary, merges, and the special tokens that the settings name."""
    import tokenizers
    from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors

    for name in ("vocab.json", "merges.txt"):
        if not (folder / name).exists():
            raise CheckpointError(f"{folder} has no {name}: a tokenizer needs tokenizer.json, or both of its halves")
    vocab = read_json(folder / "vocab.json")
    check_ids(folder / "vocab.json", vocab.items())
    check_regular(folder / "merges.txt", MOST_OF_TEXT)
    try:
        with without_panic_messages():
            bpe = models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    except BaseException as error:  # as above
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        why = words_of(error)
        raise CheckpointError(f"{folder}: vocab.json and merges.txt do not make a tokenizer: {why}") from None
    backend = tokenizers.Tokenizer(bpe)
    if settings.get("add_bos_token"):
        raise CheckpointError(f"{folder}: tokenizer_config.json asks for add_bos_token: add the model's tokenizer.json")
    prefix = bool(settings.get("add_prefix_space", False))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    backend.decoder = decoders.ByteLevel()
    is_bart = (folder / "config.json").exists() and read_json(folder / "config.json").get("model_type") == "bart"
    special = _special_tokens(settings, BART_TOKENS if is_bart else GPT2_TOKENS)
    backend.add_special_tokens([AddedToken(t, special=True) for t in dict.fromkeys(special.values()) if t in vocab])
    # Of some tokens another file says how they take the space around them.
    told = [t for t in _settings(folder, "special_tokens_map.json").values() if isinstance(t, dict)]
    known = [t for t in told if isinstance(t.get("content"), str) and t["content"] in vocab]
    backend.add_special_tokens([_token(t | {"special": True}, folder) for t in known])
    if is_bart:  # every text is framed: <s> text </s>
        missing = [special[role] for role in ("bos", "eos") if special[role] not in vocab]
        if missing:
            raise CheckpointError(
                f"{folder}: vocab.json lacks {' and '.join(missing)}, which frame every text of a BART"
            )
        first, last = ((special[role], vocab[special[role]]) for role in ("bos", "eos"))
        backend.post_processor = processors.RobertaProcessing(last, first, add_prefix_space=prefix)
    return backend


def _read_wordpiece(folder: Path, settings: dict, file: str, roles: dict[str, str]) -> tokenizers.Tokenizer:
    """BERT's layout of old: a vocabulary with a word or a piece of one on each line, and what the settings say.

    roles: the special tokens by default. A text is framed, [CLS] text [SEP]; without a "cls" it has an end alone.
    """
    import tokenizers
    from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

    path = folder / file
    check_regular(path, MOST_OF_TEXT)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
    vocab = {line.removesuffix("\r"): i for i, line in enumerate(lines if lines[-1] else lines[:-1])}
    special = _special_tokens(settings, roles)
    needed = [special[role] for role in ("unk", "sep", "pad", "cls") if role in roles]
    if missing := [token for token in needed if token not in vocab]:
        raise CheckpointError(f"{path} lacks {' and '.join(missing)}, which every text of this model needs")
    backend = tokenizers.Tokenizer(
        models.WordPiece(vocab, unk_token=special["unk"], max_input_chars_per_word=100, continuing_subword_prefix="##")
    )
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
        strip_accents=settings.get("strip_accents"), lowercase=bool(settings.get("do_lower_case", True)),
    )  # fmt: skip
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    backend.add_special_tokens([AddedToken(t, special=True) for t in dict.fromkeys(special.values()) if t in vocab])
    last = special["sep"], vocab[special["sep"]]
    if "cls" in roles:
        backend.post_processor = processors.BertProcessing(last, (special["cls"], vocab[special["cls"]]))
    else:
        backend.post_processor = processors.TemplateProcessing(["$A", last[0]], ["$A", last[0], "$B", last[0]], [last])
    return backend


def _special_tokens(settings: dict, defaults: dict[str, str]) -> dict[str, str]:
    """Role -> special token: what tokenizer_config.json names, over the family's custom; what it adds besides."""
    named = defaults | {role: settings[f"{role}_token"] for role in defaults if f"{role}_token" in settings}
    more = settings.get("additional_special_tokens")
    named |= {f"additional {i}": token for i, token in enumerate(more if isinstance(more, list) else [])}
    texts = {role: t.get("content") if isinstance(t, dict) else t for role, t in named.items()}
    return {role: t if isinstance(t, str) else defaults.get(role, "") for role, t in texts.items()}
