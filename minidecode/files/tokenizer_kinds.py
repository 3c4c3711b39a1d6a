"""The kinds of tokenizers that families name: which files each reads, and what makes it of a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import OptionError
from .fairseq_tokenizer import FairseqTokenizer
from .sentencepiece_tokenizer import MarianTokenizer, MBartJsonTokenizer, MBartLanguages, MBartTokenizer
from .stored import read_json
from .tokenizer import Tokenizer


@dataclass(frozen=True)
class TokenizerKind:
    """files: what a folder needs, for errors. make: of a folder and the model's config; None without the files.

    knows_languages: whether the tokenizer, and not config.json, says which languages there are.
    """

    files: str
    make: Callable[[Path, Any], Tokenizer | None]
    knows_languages: bool = False

    def set_languages(
        self, tokenizer: Tokenizer | None, config: dict[str, Any] | Path | None, source: str | None, target: str | None
    ) -> dict[str, int]:
        """Sets the languages of a tokenizer that has them -> what they change in the defaults of generation.

        config: the fields of config.json, or the folder that has the file. Raises OptionError on other languages.
        """
        if isinstance(tokenizer, MarianTokenizer | MBartLanguages):
            return tokenizer.for_languages(source, target)
        given = {name: lang for name, lang in (("source_lang", source), ("target_lang", target)) if lang is not None}
        if given and self.knows_languages:
            raise OptionError(
                f"{next(iter(given))}={next(iter(given.values()))!r}: this model has no tokenizer that knows languages:"
                f" leave it out, or add {self.files}"
            )
        if given:
            fields = read_json(config / "config.json") if isinstance(config, Path) else config or {}
            check_languages(fields, source, target)
        return {}


def check_languages(fields: dict[str, Any], source_lang: str | None, target_lang: str | None) -> None:
    """Raises OptionError on languages that are not those that config.json's fields name: fairseq's, or FSMT's langs."""
    langs = fields.get("langs")
    if not isinstance(langs, list) or len(langs) != 2:
        langs = [fields.get("source_lang"), fields.get("target_lang")]
    for name, given, known in zip(("source_lang", "target_lang"), (source_lang, target_lang), langs, strict=True):
        if given is not None and known is None:
            raise OptionError(f"{name}={given!r}: this model's config.json names no {name}: leave it out")
        if given not in (None, known):
            raise OptionError(
                f"{name}={given!r} is unknown to this model, which translates {langs[0]} to {langs[1]}: leave it out, "
                "or use another model"
            )


def _any_tokenizer(folder: Path, config: Any) -> Tokenizer | None:
    return Tokenizer.from_folder(folder)


def _load_marian_tokenizer(folder: Path, config: Any) -> Tokenizer | None:
    tokenizer = MarianTokenizer.of_folder(folder, config.source_vocab_size, config.vocab_size)
    return tokenizer or Tokenizer.from_folder(folder)


def _load_mbart_tokenizer(folder: Path, config: Any) -> Tokenizer | None:
    return MBartTokenizer.of_folder(folder, config.vocab_size) or MBartJsonTokenizer.of_folder(folder)


def _load_prophetnet_tokenizer(folder: Path, config: Any) -> Tokenizer | None:
    return Tokenizer.from_folder(folder, "prophetnet.tokenizer")


def _load_fairseq_tokenizer(folder: Path, config: Any) -> Tokenizer | None:
    return FairseqTokenizer.of_folder(folder, config.source_vocab_size, config.vocab_size)


TOKENIZER_KINDS = {  # by the name that a family gives
    "tokenizer.json": TokenizerKind("tokenizer.json", _any_tokenizer),
    "wordpiece": TokenizerKind("tokenizer.json or vocab.txt", _any_tokenizer),
    "marian": TokenizerKind("source.spm, target.spm and vocab.json", _load_marian_tokenizer, knows_languages=True),
    "mbart": TokenizerKind("sentencepiece.bpe.model or tokenizer.json", _load_mbart_tokenizer, knows_languages=True),
    "prophetnet": TokenizerKind("tokenizer.json or prophetnet.tokenizer", _load_prophetnet_tokenizer),
    "fairseq": TokenizerKind("dict.SRC.txt and dict.TGT.txt", _load_fairseq_tokenizer),
    "fsmt": TokenizerKind("vocab-src.json, vocab-tgt.json and merges.txt", _load_fairseq_tokenizer),
}
