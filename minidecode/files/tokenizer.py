"""Text <-> token ids: byte-level BPE and WordPiece through the `tokenizers` library."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CheckpointError, InputError, shown, words_of
from ..options.stop_strings import NewText
from .chat import ChatTemplate, Message
from .long_texts import SHORT, Borders, find_borders, longest_token
from .special_tokens import SpecialTokens, added_tokens, token_settings
from .stored import MOST_OF_TEXT, check_regular, read_json
from .tokenizer_checks import check_ids, check_tokenizer, has_expressions, is_panic, without_panic_messages
from .tokenizer_classes import (
    BART,
    BERT,
    PROPHETNET,
    add_bert_template,
    add_bpe_template,
    apply_settings,
    bert_normalizer,
    check_words,
    cleans_spaces,
    default_tokens,
    find_bpe_class,
    find_tokenizer_class,
    make_bpe_tokenizer,
    remove_joining_spaces,
)

if TYPE_CHECKING:
    import tokenizers

MOST_CHARACTERS = 2**28  # of a text as the normalizer may leave it
NEAR = 8  # tokens in front of others that say how these are written, if they hold text
UNSETTLED = 8  # characters at the end of a text that its next ones may change where spaces are cleaned
MAY_JOIN = " .?!,'ntmsver"  # characters of what cleaning joins: no text is changed across another one


def _byte_alphabet() -> dict[str, int]:
    """The character that byte-level vocabularies write for a byte -> the byte. Printable ones are themselves."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


BYTE_OF = _byte_alphabet()


@dataclass(frozen=True)
class Encoded:
    """A text as an encoder reads it: of each token its id, which of two texts it is of, and where it stands there."""

    ids: np.ndarray
    types: np.ndarray
    places: list[tuple[int, int] | None]  # characters of its text; None of a special token. Empty if not asked for


class Tokenizer:
    """`encode` and `decode` for one model folder. Any Unicode text survives the round trip."""

    begins_with_language = False  # whether targets begin with the code of their language, and never with <s> (mBART)
    _cleans = False  # whether spaces in front of punctuation go from what is decoded

    def __init__(
        self, backend: tokenizers.Tokenizer, growth: float = 1.0, may_panic: bool = False,
        chat_template: ChatTemplate | None = None, cleans: bool = False,
    ):  # fmt: skip
        """growth: how many times longer the normalizer may make a text. may_panic: expressions of its own are in it."""
        self._backend, self._growth, self._may_panic = backend, growth, may_panic
        self.chat_template, self._cleans = chat_template, cleans

    def check_target(self, options: Any) -> None:
        """Raises OptionError on options that do not say what the tokenizer has to know of targets."""

    @classmethod
    def from_folder(cls, folder: Path, words: str = "vocab.txt") -> Tokenizer | None:
        """tokenizer.json, or vocab.json with merges.txt, or a list of words; None if the folder has none of them.

        words: the file of that list. Raises CheckpointError if a file cannot be read.
        """
        growth, may_panic = 1.0, False
        if (path := folder / "tokenizer.json").exists():
            fields = read_json(path)  # names what is wrong with the file better than the library does
            growth, may_panic = check_tokenizer(path, fields), has_expressions(fields)
            backend = _load_tokenizer_json(path)
        elif (folder / "vocab.json").exists() or (folder / "merges.txt").exists():
            backend = _load_vocabulary_and_merges(folder)
        elif (folder / words).exists():
            backend = _load_word_pieces(folder / words)
        else:
            return None
        cleans = cleans_spaces(backend, token_settings(folder))
        return cls(backend, growth, may_panic, ChatTemplate.from_folder(folder), cleans)

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

    def encode_chat(self, messages: Sequence[Message], most: int | None = None) -> np.ndarray:
        """Token ids of a conversation, up to where the answer begins, by the model's chat template.

        The template alone says which special tokens stand where. As in transformers, a message that holds the text of
        a special token holds that token. most: how many tokens a model holds. Raises InputError without a template, as
        `ChatTemplate.render` does, and on a long conversation of more tokens, before all of it is read.
        """
        if self.chat_template is None:
            raise InputError("this model has no chat template: use a model that was trained to chat, or plain prompts")
        text = self.chat_template.render(messages)
        if most is not None and len(self.cut_to_beginning(text, most + 1)) < len(text):
            raise InputError(
                f"the conversation has more than {most:,} tokens, and the model holds {most:,}: leave out some"
            )
        return self.encode(text, add_special_tokens=False)

    def encode(self, text: str, add_special_tokens: bool = True) -> np.ndarray:
        """Token ids, int64. Raises InputError on half a surrogate pair: that is no Unicode text."""
        return np.array(self._encoding(text, None, add_special_tokens).ids, dtype=np.int64)

    def encode_for_reading(self, text: str, second: str | None = None, with_places: bool = False) -> Encoded:
        """What an encoder reads of a text, or of two that belong together. Raises InputError as `encode` does."""
        encoding, places = self._encoding(text, second, True), []
        ids, types = np.array(encoding.ids, dtype=np.int64), np.array(encoding.type_ids, dtype=np.int64)
        if with_places:
            each = zip(encoding.offsets, encoding.special_tokens_mask, strict=True)
            places = [None if is_special else place for place, is_special in each]
        return Encoded(ids, types, places)

    def _encoding(self, text: str, second: str | None, add_special_tokens: bool) -> tokenizers.Encoding:
        """The library's, of checked texts."""
        for each in (text,) if second is None else (text, second):
            check_text(each)
            if len(each) * self._growth > MOST_CHARACTERS:
                raise InputError(f"the text has {len(each):,} characters, too many for this tokenizer: shorten it")
        encode = functools.partial(self._backend.encode, add_special_tokens=add_special_tokens)
        return self._call_library("encode a text", encode, text, second)

    def encode_target(self, text: str) -> np.ndarray:
        """Token ids of a target, as `encode` gives them: the source's and the target's tokens are the same here."""
        return self.encode(text)

    def decode(self, ids, keep_special: bool = False) -> str:
        """The text of token ids, special tokens left out; bytes that form no character become U+FFFD."""
        ids = [int(i) for i in ids]
        text = self._call_library("decode tokens", self._backend.decode, ids, skip_special_tokens=not keep_special)
        return remove_joining_spaces(text) if self._cleans else text

    def decode_after(self, before: Sequence[int] | np.ndarray, ids) -> str:
        """The text that token ids add behind others: the text of all of them, less the text before.

        By itself a word would lose the space in front of it where a tokenizer writes none at the start of a text.
        """
        near = self._last_ids(before)
        whole, known = self.decode([*near, *ids]), self.decode(near)
        for start in (known, known.rstrip("\ufffd")):  # a character may be complete with the new tokens alone
            if whole.startswith(start):
                return whole[len(start) :]
        return self.decode(ids)

    def decode_both(self, before: Sequence[int] | np.ndarray, ids) -> tuple[str, str]:
        """(the text of the ids before, what `decode_after` gives): together the text of all of them."""
        whole, new = self.decode([*before, *ids]), self.decode_after(before, ids)
        return whole[: len(whole) - len(new)] if whole.endswith(new) else self.decode(before), new

    def new_text(self, before: Sequence[int] | np.ndarray, ids, stops: Sequence[str]) -> NewText:
        """What `decode_after` gives, and the special tokens in it that stop strings name."""
        ids = [int(i) for i in ids]
        text, named = self.decode_after(before, ids), self.special_tokens_named_in(stops, ids) if stops else {}
        special, size = [], 0
        for n in (n for n, i in enumerate(ids) if i in named):
            if n == 0 or ids[n - 1] not in named:  # those of a run have the same text before them
                size = min(len(text), len(self.decode_after(before, ids[:n])))
            special.append((size, named[ids[n]]))
        return NewText(text, special)

    def special_tokens_named_in(self, stops: Sequence[str], ids: Sequence[int]) -> dict[int, str]:
        """{id: name} of the special tokens among ids that stand in a stop string."""
        names = {i: self.decode([i], keep_special=True) for i in set(ids) & set(self.special_ids)}
        return {i: name for i, name in names.items() if name and any(name in stop for stop in stops)}

    @property
    def unsettled_characters(self) -> int:
        """How many characters at the end of a text may still change when tokens follow; bytes of a character aside."""
        return UNSETTLED if self._cleans else 0

    def settled_end(self, ids: Sequence[int]) -> list[int] | None:
        """The last ids, where no id behind them changes the text so far, and they alone say how it is written; or None.

        A byte of a character is followed by others, and may turn into U+FFFD with them. A special token is no text.
        """
        near, piece = list(ids[-NEAR:]), self._piece(int(ids[-1]))
        if not piece or piece.startswith("<0x") or ids[-1] in self.special_ids or self._rewrites:
            return None
        last = self.decode(near)[-1:]
        is_settled = last.strip() and last != "\ufffd" and not (self._cleans and last in MAY_JOIN)
        return near if is_settled else None

    def _piece(self, i: int) -> str | None:
        """The token of an id, as the vocabulary has it."""
        return self._backend.id_to_token(i)

    @functools.cached_property
    def _rewrites(self) -> bool:
        """Whether the decoder replaces parts of a text whose tokens are joined: then what follows may change any."""
        decoder = self._backend.decoder
        return bool(decoder and re.search(rb'"(Fuse|ByteLevel)".*"Replace"', decoder.__getstate__(), re.DOTALL))

    def _last_ids(self, ids: Sequence[int] | np.ndarray) -> list[int]:
        """The last ids that decide how the next are written: some text, beginning with a complete character."""
        for start in range(len(ids) - NEAR, max(0, len(ids) - 8 * NEAR), -1):
            token = self._piece(int(ids[start]))
            if token and not token.startswith("<0x"):
                near = [int(i) for i in ids[start:]]
                if self.decode(near).strip():
                    return near
        return [int(i) for i in ids]

    def _call_library(self, what: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What the library returns. Raises InputError where it cannot: a text may hold what its files do not know."""
        try:
            with without_panic_messages() if self._may_panic else contextlib.nullcontext():
                return function(*arguments, **options)
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            raise InputError(f"the model's tokenizer cannot {what} ({error}): use another text, or mend it") from None

    def bytes_of_tokens(self, ids) -> int | None:
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

    def token_bytes(self, token: int) -> bytes | None:
        """The bytes of a token of a byte-level vocabulary, which may be a part of a character; else None."""
        word = self._backend.id_to_token(token)
        if self.most_tokens(1) is None or word is None or any(c not in BYTE_OF for c in word):
            return None
        return bytes(BYTE_OF[c] for c in word)

    def as_json(self) -> str:
        """All of it in one text, the same for tokenizers that do the same."""
        return self._backend.to_str()

    def cut_to_beginning(self, text: str, count: int) -> str:
        """A beginning of a long text that has its first `count` tokens, and more of them; else all of it."""
        if len(text) <= SHORT or self.safe_borders is None:
            return text
        return self.safe_borders.cut_to_beginning(text, count, functools.partial(self.encode, add_special_tokens=False))

    def surely_has_tokens(self, text: str, count: int) -> bool:
        """Whether a long text surely has this many tokens, judged by its length alone."""
        return len(text) > SHORT and self._longest_token is not None and len(text) >= count * self._longest_token

    @functools.cached_property
    def _longest_token(self) -> int | None:
        """How many characters of a text a token takes at most; None if it is not known."""
        is_known = self.most_tokens(1) is not None and self.safe_borders is not None
        return longest_token(self._backend) if is_known else None

    def cut_to_ending(self, text: str, count: int) -> str:
        """An end of a long text that has its last `count` tokens, and more of them; else all of it."""
        if len(text) <= SHORT or self.safe_borders is None:
            return text
        return self.safe_borders.cut_to_ending(text, count, functools.partial(self.encode, add_special_tokens=False))

    @functools.cached_property
    def safe_borders(self) -> Borders | None:
        """The places where texts may be cut without a change of tokens on either side; None if they are not known."""
        return find_borders(self._backend)

    @functools.cached_property
    def closing_ids(self) -> tuple[int, ...]:
        """The special tokens that stand behind each text."""
        for probe in ("a", "1", "."):
            encoding = self._backend.encode(probe)
            if 0 in (added := encoding.special_tokens_mask):
                count = added[::-1].index(0)
                return tuple(encoding.ids[len(added) - count :])
        return ()  # no text has a token

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

    def __init__(
        self, tokenizer: Tokenizer, stop_strings: Sequence[str] = (), keep_stop_strings: bool = False,
        before: Sequence[int] | np.ndarray = (), full_text: bool = False,
    ):  # fmt: skip
        """before: token ids in front of the new ones, whose text comes first if `full_text`."""
        self._tokenizer, self._shown = tokenizer, 0
        self._stops, self._keep = stop_strings, keep_stop_strings
        self._before, self._owes = before, full_text
        self._named = tokenizer.special_tokens_named_in(stop_strings, tokenizer.special_ids) if stop_strings else {}
        self._ids: list[int] = []  # new ones whose text may change
        self._settled = ""  # the end of the text before theirs, which will not change
        self._text = ""  # that, and theirs
        self._special: list[tuple[int, str]] = []  # as in NewText

    def push(self, token_id: int) -> str:
        """The text that this token completes; may be empty."""
        if token_id in self._named:
            self._special.append((len(self._text), self._named[token_id]))
        self._ids.append(token_id)
        self._text = self._settled + self._tokenizer.decode_after(self._before, self._ids)
        first, new = self._unsent_prompt_text(), self._new()
        if (new.text or first).endswith("\ufffd"):
            return ""
        sure = min(
            len(new.text_before_possible_stop(self._stops)), len(new.text) - self._tokenizer.unsettled_characters
        )
        piece = self._advance(first, new.cut(self._stops, self._keep)[: max(0, sure)])
        if len(self._ids) >= 2 * NEAR and not new.has(self._stops):
            self._forget()
        return piece

    def finish(self) -> str:
        """What was still held back."""
        return self._advance(self._unsent_prompt_text(), self._new().cut(self._stops, self._keep))

    def _forget(self) -> None:
        """Keeps only the end of a text that is settled: it may begin a stop string, and says how more is written."""
        if (near := self._tokenizer.settled_end(self._ids)) is not None:
            cut = max(0, len(self._text) - max([self._tokenizer.unsettled_characters, *map(len, self._stops)]))
            self._before, self._ids = near, []
            self._settled = self._text = self._text[cut:]
            self._special = [(place - cut, name) for place, name in self._special if place >= cut]
            self._shown -= cut

    def _new(self) -> NewText:
        return NewText(self._text, [(min(size, len(self._text)), name) for size, name in self._special])

    def _unsent_prompt_text(self) -> str:
        """The text of the tokens before, until it was given."""
        return self._tokenizer.decode_both(self._before, self._ids)[0] if self._owes else ""

    def _advance(self, first: str, text: str) -> str:
        new = text[self._shown :]
        self._shown, self._owes = self._shown + len(new), False
        return first + new


def _load_tokenizer_json(path: Path) -> tokenizers.Tokenizer:
    """tokenizer.json, as the settings beside it change it."""
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
    settings = token_settings(path.parent)
    kind = find_tokenizer_class(path.parent, settings)
    special = _add_tokens(backend, path.parent, settings, kind)
    apply_settings(backend, kind, settings, special)
    return backend


def _load_vocabulary_and_merges(folder: Path) -> tokenizers.Tokenizer:
    """The layout of old: a vocabulary, merges, and the special tokens that the settings name."""
    from tokenizers import models

    for name in ("vocab.json", "merges.txt"):
        if not (folder / name).exists():
            raise CheckpointError(f"{folder} has no {name}: a tokenizer needs tokenizer.json, or both of its halves")
    settings, vocab = token_settings(folder), read_json(folder / "vocab.json")
    check_ids(folder / "vocab.json", vocab.items())
    kind = find_bpe_class(folder, settings)
    check_regular(folder / "merges.txt", MOST_OF_TEXT)
    try:
        with without_panic_messages():
            bpe = models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    except BaseException as error:  # as above
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        why = words_of(error)
        raise CheckpointError(f"{folder}: vocab.json and merges.txt do not make a tokenizer: {why}") from None
    backend = make_bpe_tokenizer(bpe, kind, settings)
    special = _add_tokens(backend, folder, settings, kind)
    add_bpe_template(backend, settings, special)
    apply_settings(backend, kind, settings, special)
    frame = [special.texts_by_role.get(role, default_tokens(BART)[role]) for role in ("cls_token", "sep_token")]
    if kind == BART and (missing := [token for token in frame if token not in vocab]):
        raise CheckpointError(f"{folder}: vocab.json lacks {_join_with_and(missing)}, which frame every text of a BART")
    return backend


def _load_word_pieces(path: Path) -> tokenizers.Tokenizer:
    """BERT's layout of old: a vocabulary with a word or a piece of one on each line, and what the settings say."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers

    check_regular(path, MOST_OF_TEXT)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
    vocab = {line.removesuffix("\r"): i for i, line in enumerate(lines if lines[-1] else lines[:-1])}
    settings = token_settings(path.parent)
    check_words(path, settings)
    kind = PROPHETNET if path.name == "prophetnet.tokenizer" else BERT
    defaults = default_tokens(kind)
    texts = defaults | SpecialTokens.from_settings(settings, _read_older_tokens(path.parent), defaults).texts_by_role
    needed = [texts[role] for role in ("unk_token", "sep_token", "pad_token", "cls_token") if role in texts]
    if missing := [token for token in needed if token not in vocab]:
        raise CheckpointError(f"{path} lacks {_join_with_and(missing)}, which every text of this model needs")
    backend = tokenizers.Tokenizer(
        models.WordPiece(
            vocab, unk_token=texts["unk_token"], max_input_chars_per_word=100, continuing_subword_prefix="##"
        )
    )
    backend.normalizer = bert_normalizer(settings)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    add_bert_template(backend, _add_tokens(backend, path.parent, settings, kind))
    return backend


def _add_tokens(backend: tokenizers.Tokenizer, folder: Path, settings: dict, kind: str) -> SpecialTokens:
    """Adds the tokens that settings files describe, each under its id, and marks those that they name as special.

    What tokenizer.json marks stays marked, and added_tokens.json, which says ids alone, changes no token of it. kind:
    the tokenizer's class, whose own special tokens count where the vocabulary has them.
    """
    known = {role: token for role, token in default_tokens(kind).items() if backend.token_to_id(token) is not None}
    special = SpecialTokens.from_settings(settings, _read_older_tokens(folder), known)
    marked = {token["content"] for token in special.all_tokens}
    there = {token.content: token for token in backend.get_added_tokens_decoder().values()}
    added, is_described = added_tokens(folder, settings)
    tokens = {id: _token(described, folder) for id, described in added}
    for id, token in tokens.items():
        before = there.get(token.content)
        if before is not None and not is_described:
            tokens[id] = before
        elif before is not None:
            token.special |= before.special
        elif token.content in marked and not is_described:
            tokens[id] = _token({"content": token.content, "special": True}, folder)
    backend.add_tokens(list(tokens.values()))
    for id, token in tokens.items():
        if backend.token_to_id(token.content) != id:
            raise CheckpointError(
                f"{folder}: the added token {shown(token.content)} should have id {id}, and the vocabulary leaves it "
                f"{backend.token_to_id(token.content)}: its files do not belong together"
            )
    there |= {token.content: token for token in tokens.values()}
    roles, named = {token["content"] for token in special.named.values()}, []
    for described in special.all_tokens:
        token = _token(described, folder)
        if (before := there.get(token.content)) is not None:  # it has flags of its own
            token = before
            token.special |= token.content in roles  # a token that has a role is special, whatever they say
        named.append(token)
    backend.add_tokens(named)
    return special


def _token(described: dict, folder: Path) -> tokenizers.AddedToken:
    from tokenizers import AddedToken

    flags = ("special", "lstrip", "rstrip", "normalized", "single_word")
    content = described.get("content") if isinstance(described, dict) else None
    if not isinstance(content, str) or any("\ud800" <= c <= "\udfff" for c in content):
        raise CheckpointError(f"{folder}: an added token has no text: {shown(described)}")
    known = {"normalized": not described.get("special")} | {f: bool(described[f]) for f in flags if f in described}
    return AddedToken(content, **known)


def _join_with_and(tokens: list[str]) -> str:
    return " and ".join(f"{token:.40}" for token in tokens)


def _read_older_tokens(folder: Path) -> dict:
    return token_settings(folder, "special_tokens_map.json")
