"""Text <-> token ids of Marian and mBART: SentencePiece models, language codes, and the package `sentencepiece`."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import CheckpointError, InputError, OptionError, did_you_mean, pip_install
from ..options.options import Options
from .long_texts import Borders, pieces_keep_words_apart
from .special_tokens import SpecialTokens, added_tokens, token_settings
from .stored import MOST_OF_TEXT, check_regular, read_json
from .tokenizer import Tokenizer, check_text
from .tokenizer_checks import check_ids

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # mBART's first ids
END = 2
SPACE = "\u2581"  # what SentencePiece writes for a space
KINDS = {1: "unigram", 2: "BPE", 3: "words", 4: "characters"}  # model_type in a model's trainer_spec
# fmt: off
CC25 = (
    "ar_AR", "cs_CZ", "de_DE", "en_XX", "es_XX", "et_EE", "fi_FI", "fr_XX", "gu_IN", "hi_IN", "it_IT", "ja_XX", "kk_KZ",
    "ko_KR", "lt_LT", "lv_LV", "my_MM", "ne_NP", "nl_XX", "ro_RO", "ru_RU", "si_LK", "tr_TR", "vi_VN", "zh_CN",
)
MBART50 = (
    *CC25, "af_ZA", "az_AZ", "bn_IN", "fa_IR", "he_IL", "hr_HR", "id_ID", "ka_GE", "km_KH", "mk_MK", "ml_IN", "mn_MN",
    "mr_IN", "pl_PL", "ps_AF", "pt_XX", "sv_SE", "sw_KE", "ta_IN", "te_IN", "th_TH", "tl_XX", "uk_UA", "ur_PK", "xh_ZA",
    "gl_ES", "sl_SI",
)
# fmt: on


class Named(NamedTuple):
    """The tokens that a folder's settings name beside the vocabulary's own."""

    special: frozenset[str] = frozenset()
    ordinary: frozenset[str] = frozenset()

    @classmethod
    def of_folder(cls, folder: Path) -> Named:
        """Tokens of tokenizer_config.json, special_tokens_map.json and added_tokens.json."""
        settings = token_settings(folder)
        special = SpecialTokens.from_settings(settings, token_settings(folder, "special_tokens_map.json"), {})
        marked = {token["content"] for token in special.all_tokens}
        added = [token for _, token in added_tokens(folder, settings)[0] if isinstance(token, dict)]
        contents = {t["content"]: bool(t.get("special")) for t in added if isinstance(t.get("content"), str)}
        marked |= {content for content, is_special in contents.items() if is_special}
        return cls(frozenset(marked), frozenset(contents) - marked)


NONE = Named()


class SentencePieceTokenizer(Tokenizer):
    """What the tokenizers of Marian and mBART share. Languages are fixed when it is made: see `for_languages`."""

    eos: int
    unknown: int
    special: frozenset[int]  # ids that `decode` leaves out
    _rewrites = False

    def __init__(self, whole: Iterable[str] = ()):
        """whole: the tokens that SentencePiece does not get to see. Each stands for itself in a text."""
        self.chat_template, self.whole = None, frozenset(whole)
        longest_first = sorted(filter(None, self.whole), key=len, reverse=True)
        self._whole = re.compile(f"({'|'.join(map(re.escape, longest_first))})" if longest_first else "(?!)")

    @property
    def source_model(self) -> Any:
        """The SentencePiece model that reads sources."""
        raise NotImplementedError

    @functools.cached_property
    def safe_borders(self) -> Borders | None:
        """The places where sources may be cut; None where a piece may span two words."""
        model = self.source_model
        pieces = map(model.id_to_piece, range(model.get_piece_size()))
        whole = tuple(t for t in self.whole if " " in t or t[0].isalnum() or t[-1].isalnum())
        return Borders(whole=whole) if pieces_keep_words_apart(pieces) else None

    def split_at_whole_tokens(self, text: str) -> list[str]:
        """A text split at the tokens that stand for themselves; these are parts too."""
        return [part for part in self._whole.split(text) if part]

    def bytes_of_tokens(self, ids: Any) -> int | None:
        return None

    def most_tokens(self, count: int) -> int | None:
        return None

    @property
    def special_ids(self) -> list[int]:  # type: ignore[override]
        """The ids that `decode` leaves out."""
        return sorted(self.special)


class MarianTokenizer(SentencePieceTokenizer):
    """`encode` by source.spm, `encode_target` by target.spm; vocab.json says the id of each piece.

    A model for several target languages takes one from the beginning of a text, such as >>fr<<, or from target_lang.
    As in transformers, texts are not normalised beyond what the SentencePiece models do.
    """

    def __init__(
        self, models: Sequence[Any], ids: dict[str, int], target_ids: dict[str, int] | None,
        named: Named = NONE,
    ):  # fmt: skip
        """models: of the source and of the target. ids: of each piece; target_ids: of the target's, if they differ."""
        special = {"</s>", "<unk>", "<pad>", *named.special}
        super().__init__(token for token in {*special, *named.ordinary} if token in ids)
        self.models, self.ids, self.target_ids = tuple(models), ids, ids if target_ids is None else target_ids
        self.separate = target_ids is not None
        self.pieces = {i: piece for piece, i in self.target_ids.items()}
        self.codes = [piece for piece in ids if piece.startswith(">>") and piece.endswith("<<")]
        self.languages: tuple[str | None, str | None] = None, None  # source's and target's
        self.code: str | None = None  # what stands in front of each source
        self.special = frozenset(self.target_ids[t] for t in special if t in self.target_ids)

    @classmethod
    def of_folder(cls, folder: Path, source_size: int, target_size: int) -> MarianTokenizer | None:
        """The tokenizer of source.spm, target.spm and vocab.json; None without any of the three.

        Raises CheckpointError on files that are missing, damaged, or of another model.
        """
        names = ("source.spm", "target.spm", "vocab.json")
        present = [name for name in names if (folder / name).exists()]
        if not present:
            return None
        if missing := [name for name in names if name not in present]:
            raise CheckpointError(f"{folder} has no {missing[0]}: a Marian needs {', '.join(names)}")
        models = [read_sentencepiece(folder / name, "unigram") for name in names[:2]]
        ids = read_vocabulary(folder / "vocab.json", source_size)
        settings = token_settings(folder)
        target_ids = None
        if settings.get("separate_vocabs") or (folder / "target_vocab.json").exists():
            target_ids = read_vocabulary(folder / "target_vocab.json", target_size)
        tokenizer = cls(models, ids, target_ids, Named.of_folder(folder))
        given = (settings.get("source_lang"), settings.get("target_lang"))
        tokenizer.languages = tuple(lang if isinstance(lang, str) else None for lang in given)  # type: ignore[assignment]
        return tokenizer

    @property
    def source_model(self) -> Any:
        """The SentencePiece model that reads sources."""
        return self.models[0]

    def __repr__(self) -> str:
        return f"MarianTokenizer({len(self.ids):,} pieces, {len(self.codes)} target languages)"

    def for_languages(self, source: str | None, target: str | None) -> dict[str, int]:
        """Sets the languages. Raises OptionError on those that this model does not translate."""
        of_source, of_target = self.languages
        if self.codes and target is not None:
            languages = [code[2:-2] for code in self.codes]
            if target not in languages:
                raise OptionError(
                    f"target_lang {target!r} is none of this model's: {_first_of_names(languages)}"
                    f"{did_you_mean(target, languages)}"
                )
            self.code = f">>{target}<<"
        elif target is not None and target != of_target:
            into = (
                "its files do not say into which it translates"
                if of_target is None
                else (f"this model translates into {of_target!r}")
            )
            raise OptionError(f"target_lang {target!r}: {into}: leave it out")
        if source is not None and source not in (of_source or "").split("+"):
            of = (
                "its files do not say from which it translates"
                if of_source is None
                else (f"this model translates from {of_source!r}")
            )
            raise OptionError(f"source_lang {source!r}: {of}: leave it out")
        return {}

    def encode(self, text: str, add_special_tokens: bool = True) -> np.ndarray:
        """Token ids of a source, </s> at the end.

        Raises InputError on a text without a language for a model of several, and as `Tokenizer.encode` does.
        """
        check_text(text)
        code, before = _language_of(text)[0], []
        if not code and self.code is not None:
            code = before = [self.code]
        if self.codes and not (code and code[0] in self.codes):
            said = f"begins with {code[0]}, which is none of its languages" if code else "says no language"
            raise InputError(
                f"this model translates into several languages, and the text {said}: begin it with one of "
                f"{_first_of_names(self.codes)}, or give target_lang"
            )
        return self._ids([*before, *self._pieces(text, self.models[0])], self.ids, add_special_tokens)

    def encode_target(self, text: str) -> np.ndarray:
        """Token ids of a target, </s> at the end."""
        check_text(text)
        return self._ids(self._pieces(text, self.models[1]), self.target_ids, True)

    def _pieces(self, text: str, model: Any) -> Iterator[str]:
        """The pieces of a text, of which each part may begin with the code of a language, as in transformers."""
        for part in self.split_at_whole_tokens(text):
            code, rest = ([part], "") if part in self.whole else _language_of(part)
            yield from code
            yield from model.encode(rest, out_type=str) if rest else ()

    def _ids(self, pieces: Sequence[str], ids: dict[str, int], with_eos: bool) -> np.ndarray:
        ids_of_pieces = [ids.get(piece, ids["<unk>"]) for piece in pieces]
        return np.array(ids_of_pieces + [ids["</s>"]] * with_eos, dtype=np.int64)

    def decode(self, ids: Any, keep_special: bool = False) -> str:
        """The text of a target's token ids, special tokens left out.

        As in transformers, the source's model joins the pieces where both sides share their vocabulary.
        """
        left_out = frozenset() if keep_special else self.special
        pieces = [self._piece(int(i)) for i in ids if int(i) not in left_out]
        return self.models[1 if self.separate else 0].decode_pieces(pieces).replace(SPACE, " ").strip()

    def _piece(self, i: int) -> str:
        return self.pieces.get(i, "<unk>")

    def as_json(self) -> str:
        """All of it in one text, the same for tokenizers that do the same."""
        models = [model.serialized_model_proto().hex() for model in self.models]
        return json.dumps([models, self.ids, self.target_ids, self.code])

    @property
    def closing_ids(self) -> tuple[int, ...]:  # type: ignore[override]
        """The special token that stands behind each source."""
        return (self.ids["</s>"],)

    @property
    def size(self) -> int:
        return max(self.target_ids.values()) + 1

    def token_to_id(self, token: str) -> int | None:
        return self.target_ids.get(token)


class MBartLanguages:
    """The codes of languages and their places in mBART's texts, whatever makes its pieces.

    The first mBART (25 languages) reads `tokens </s> code` and begins targets with a code. mBART-50 reads
    `code tokens </s>`, begins targets with </s>, and has the code forced as the first token.
    """

    begins_with_language = True
    code_ids: dict[str, int]  # de_DE -> its id
    source: int | None  # ids of the languages' codes
    target: int | None

    def piece_ids(self, text: str) -> list[int]:
        """Token ids of a text, without special tokens."""
        raise NotImplementedError

    @property
    def closing_ids(self) -> tuple[int, ...]:  # type: ignore[override]
        """The special tokens that stand behind each source."""
        return (END,) if self.is_50 or self.source is None else (END, self.source)

    @property
    def is_50(self) -> bool:
        return len(self.code_ids) == len(MBART50)

    def set_languages(self, code_ids: dict[str, int], settings: dict[str, Any]) -> None:
        """Sets the languages that tokenizer_config.json names, if it names any."""
        self.code_ids = code_ids
        self.source, self.target = (
            code_ids.get(settings[name]) if isinstance(settings.get(name), str) else None
            for name in ("src_lang", "tgt_lang")
        )

    def for_languages(self, source: str | None, target: str | None) -> dict[str, int]:
        """Sets the languages, and returns what they change in the defaults of generation.

        A language is a code, such as de_DE, or its first part: de. Raises OptionError on another.
        """
        if source is not None:
            self.source = self._language_id("source_lang", source)
        if target is not None:
            self.target = self._language_id("target_lang", target)
        if self.target is None:
            return {}
        return {"forced_bos_token_id" if self.is_50 else "decoder_start_token_id": self.target}

    def _language_id(self, name: str, language: str) -> int:
        for code, i in self.code_ids.items():
            if language in (code, code.partition("_")[0]):
                return i
        raise OptionError(
            f"{name} {language!r} is none of this model's: {_first_of_names(list(self.code_ids))}"
            f"{did_you_mean(language, self.code_ids)}"
        )

    def check_target(self, options: Options) -> None:
        """Raises OptionError where nothing says into which language: mBART-50 would choose any."""
        if self.is_50 and not options.forced_bos_token_id:
            raise OptionError(
                "mBART-50 needs the language of its targets: give target_lang, one of "
                f"{_first_of_names(list(self.code_ids))}, or forced_bos_token_id"
            )

    def encode(self, text: str, add_special_tokens: bool = True) -> np.ndarray:
        """Token ids of a source with its language. Raises InputError without one, and as `Tokenizer.encode` does."""
        check_text(text)
        ids = self.piece_ids(text)
        if add_special_tokens:
            if self.source is None:
                raise InputError(
                    "mBART needs the language of its sources: give source_lang, one of "
                    + _first_of_names(list(self.code_ids))
                )
            ids = [self.source, *ids, END] if self.is_50 else [*ids, END, self.source]
        return np.array(ids, dtype=np.int64)

    def encode_target(self, text: str) -> np.ndarray:
        """Token ids of a target as it follows decoder_start_token_id: mBART-50 has the language's code in front."""
        check_text(text)
        if self.is_50 and self.target is None:
            raise InputError(
                "mBART-50 needs the language of its targets: give target_lang, one of "
                + _first_of_names(list(self.code_ids))
            )
        return np.array([*([self.target] if self.is_50 else []), *self.piece_ids(text), END], dtype=np.int64)


class MBartTokenizer(MBartLanguages, SentencePieceTokenizer):
    """Pieces by sentencepiece.bpe.model, whose ids are one higher here, behind <s> <pad> </s> <unk>; then the codes."""

    def __init__(self, model: Any, codes: Sequence[str], settings: dict[str, Any], named: Named = NONE):
        self.model, self.first = model, model.get_piece_size() + 1  # the id of the first code
        self.set_languages({code: self.first + i for i, code in enumerate(codes)}, settings)
        self.mask = self.first + len(codes)
        special = {t for t in (*SPECIAL, *codes, "<mask>", *named.special) if self.token_to_id(t) is not None}
        super().__init__(special | {token for token in named.ordinary if self.token_to_id(token) is not None})
        self.special = frozenset(i for token in special if (i := self.token_to_id(token)) is not None)

    @classmethod
    def of_folder(cls, folder: Path, size: int) -> MBartTokenizer | None:
        """The tokenizer of sentencepiece.bpe.model; None without it. size: of the model's vocabulary, which says how
        many codes.

        Raises CheckpointError on a file that is damaged or of another model.
        """
        path = folder / "sentencepiece.bpe.model"
        if not path.exists():
            return None
        model = read_sentencepiece(path, None)
        pieces = model.get_piece_size()
        codes = {len(CC25): CC25, len(MBART50): MBART50}.get(size - pieces - 2)
        if codes is None:
            raise CheckpointError(
                f"{path} has {pieces} pieces and the model's table has {size} rows: with 2 more and {len(CC25)} or "
                f"{len(MBART50)} codes of languages they should agree, so one of the two is not this model's"
            )
        return cls(model, codes, token_settings(folder), Named.of_folder(folder))

    @property
    def source_model(self) -> Any:
        """The SentencePiece model that reads sources."""
        return self.model

    def __repr__(self) -> str:
        return f"MBartTokenizer({self.size:,} tokens, {len(self.code_ids)} languages)"

    def piece_ids(self, text: str) -> list[int]:
        """SentencePiece's own 0 is <unk>, which is 3 here."""
        ids: list[int] = []
        for part in self.split_at_whole_tokens(text):
            i = self.token_to_id(part) if part in self.whole else None
            ids += [i] if i is not None else [i + 1 if i else 3 for i in self.model.encode(part)]
        return ids

    def decode(self, ids: Any, keep_special: bool = False) -> str:
        """The text of token ids, special tokens and codes of languages left out."""
        left_out = frozenset() if keep_special else self.special
        pieces = [self._piece(int(i)) for i in ids if int(i) not in left_out]
        return self.model.decode_pieces(pieces).replace(SPACE, " ").strip()

    def _piece(self, i: int) -> str:
        if i < len(SPECIAL):
            return SPECIAL[i]
        return self.model.id_to_piece(i - 1) if i < self.first else [*self.code_ids, "<mask>"][i - self.first]

    def as_json(self) -> str:
        """All of it in one text, the same for tokenizers that do the same."""
        return json.dumps([self.model.serialized_model_proto().hex(), self.code_ids, self.source, self.target])

    @property
    def size(self) -> int:
        return self.mask + 1

    def token_to_id(self, token: str) -> int | None:
        named = {piece: i for i, piece in enumerate(SPECIAL)} | self.code_ids | {"<mask>": self.mask}
        i = self.model.piece_to_id(token)
        return named.get(token, i + 1 if i else None)


class MBartJsonTokenizer(MBartLanguages, Tokenizer):
    """mBART's pieces by a tokenizer.json, as transformers 5 writes it; codes where the languages of a call ask."""

    @classmethod
    def of_folder(cls, folder: Path) -> MBartJsonTokenizer | None:
        """The tokenizer of tokenizer.json; None without it. Raises CheckpointError without the codes of an mBART."""
        if not (folder / "tokenizer.json").exists():
            return None
        tokenizer = cls.from_folder(folder)
        assert isinstance(tokenizer, cls)  # from_folder makes what it is called on
        for codes in (MBART50, CC25):
            ids = {code: tokenizer.token_to_id(code) for code in codes}
            if None not in ids.values():
                tokenizer.set_languages({code: i for code, i in ids.items() if i is not None}, token_settings(folder))
                return tokenizer
        raise CheckpointError(
            f"{folder / 'tokenizer.json'} lacks codes of mBART's languages: use this model's own file"
        )

    def piece_ids(self, text: str) -> list[int]:
        return Tokenizer.encode(self, text, add_special_tokens=False).tolist()

    def as_json(self) -> str:
        """All of it in one text, the same for tokenizers that do the same."""
        return json.dumps([Tokenizer.as_json(self), self.source, self.target])


def read_vocabulary(path: Path, size: int) -> dict[str, int]:
    """vocab.json: {piece: id}. Raises CheckpointError where it is not one id of `size` for each piece."""
    if not path.exists():
        raise CheckpointError(f"{path} is missing: tokenizer_config.json says separate_vocabs, so both are needed")
    ids = read_json(path)
    check_ids(path, ids.items())
    if len(ids) != size or (ids and max(ids.values()) >= size):
        raise CheckpointError(
            f"{path} has {len(ids)} pieces and the model's table has {size} rows: use the vocabulary that the model "
            "was trained with"
        )
    for token in ("</s>", "<unk>"):
        if token not in ids:
            raise CheckpointError(f"{path} lacks {token}: use the vocabulary that the model was trained with")
    return ids


def read_sentencepiece(path: Path, kind: str | None) -> Any:
    """A SentencePieceProcessor of a file, which must be of that kind (None: any).

    Raises CheckpointError on a file that is none or of another kind, OptionError without the package.
    """
    try:
        import sentencepiece
    except ImportError:
        raise OptionError(
            f"the package sentencepiece is missing: {pip_install('sentencepiece', 'translate')}"
        ) from None
    check_regular(path, MOST_OF_TEXT)
    data = path.read_bytes()
    stored = model_kind(data)
    if stored is None:
        raise CheckpointError(f"{path} is no SentencePiece model, or is cut short: download the file again")
    if kind is not None and stored != kind:
        raise CheckpointError(f"{path} is a SentencePiece model of kind {stored}, and this model needs {kind}")
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=data)
    except (RuntimeError, OSError) as error:
        raise CheckpointError(f"{path} cannot be read as a SentencePiece model ({error}): download it again") from None


def model_kind(data: bytes) -> str | None:
    """What kind of SentencePiece model the bytes are, in words; None if they are none, or end too early.

    A model is a protobuf message: pieces (field 1), trainer_spec (field 2), in which model_type is field 3.
    """
    kind, has_pieces = 1, False
    try:
        for field, value in _protobuf_fields(data):
            has_pieces |= field == 1
            if field == 2 and isinstance(value, bytes):
                kind = next((v for f, v in _protobuf_fields(value) if f == 3 and isinstance(v, int)), kind)
    except (ValueError, IndexError):
        return None
    return KINDS.get(kind) if has_pieces else None


def _protobuf_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field, value) of a protobuf message, in order. Raises ValueError or IndexError where it is none."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        field, wire = key >> 3, key & 7
        value: int | bytes
        if wire == 0:
            value, at = _varint(data, at)
        else:
            if wire not in (1, 2, 5):
                raise ValueError(f"wire type {wire}")
            size, at = _varint(data, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
            value, at = data[at : at + size], at + size
        if at > len(data) or field == 0:
            raise ValueError("cut short")
        yield field, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(the number at this byte, seven bits a byte, and where the next one is)."""
    value = shift = 0
    while True:
        byte = data[at]
        value, at, shift = value | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _language_of(text: str) -> tuple[list[str], str]:
    """([>>fr<<], the text behind it), if a text begins so."""
    if not text.startswith(">>") or "<<" not in text:
        return [], text
    end = text.index("<<") + 2
    return [text[:end]], text[end:]


def _first_of_names(names: Sequence[str]) -> str:
    """The first names of a list that may be long."""
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
