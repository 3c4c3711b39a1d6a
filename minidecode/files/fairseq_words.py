"""fairseq's dictionaries as tokenizers of transformers: for its BART and its language models.

A line of a dictionary is a word. Where GPT-2's BPE split the texts of training, a word is the number of a piece: then
GPT-2's two files, `encoder.json` and `vocab.bpe`, say which piece that is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import CheckpointError
from .fairseq_tokenizer import SPECIAL, Dictionary, read_lines
from .stored import read_json
from .tokenizer_checks import check_ids

BPE_FILES = ("encoder.json", "vocab.bpe")  # GPT-2's, as fairseq calls them
MASK = "<mask>"


def check_dictionary(path: Path, *sizes: int) -> Dictionary:
    """The dictionary of a file. Raises CheckpointError where it is missing, or has not one of these numbers of words.

    They are those of the model's embeddings, special ones included.
    """
    if not path.is_file():
        others = ", ".join(sorted(p.name for p in path.parent.glob("dict*.txt"))) or "none"
        raise CheckpointError(f"{path} is missing (dictionaries there: {others}): put it beside the checkpoint")
    dictionary = Dictionary.from_file(path)
    if len(dictionary) not in sizes:
        raise CheckpointError(
            f"{path} has {len(dictionary)} words, the special ones included, and the checkpoint's table has "
            f"{sizes[0]}: use the dictionary that the model was trained with"
        )
    return dictionary


def tokenizer_files(folder: Path, words: list[str], starts_with: str | None) -> tuple[dict[str, str], bool]:
    """({name of a file: its content}, whether texts go through GPT-2's BPE, whose files lie in `folder`).

    words: by id. starts_with: what stands in front of each text of a language model; None: of a BART, which has
    `<s> text </s>` with BPE, and `text </s>` with words, as fairseq has them.
    """
    if all((folder / name).is_file() for name in BPE_FILES):
        return _bpe_files(folder, words, starts_with), True
    template = [_special_token_of_template("</s>")] if starts_with is None else []
    before = [] if starts_with is None else [_special_token_of_template(starts_with)]
    single = [*before, {"Sequence": {"id": "A", "type_id": 0}}, *template]
    framed = "</s>" if starts_with is None else starts_with
    listed = {word: i for i, word in enumerate(words)}
    backend: dict[str, Any] = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "decoder": None,
        "added_tokens": [
            {"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True} for token, i in listed.items() if token in (*SPECIAL[:3], MASK)
        ],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing", "single": single,
            "pair": [*single, {"Sequence": {"id": "B", "type_id": 0}}, *template],
            "special_tokens": {framed: {"id": framed, "ids": [listed[framed]], "tokens": [framed]}},
        },
        "model": {"type": "WordLevel", "vocab": listed, "unk_token": "<unk>"},
    }  # fmt: skip
    return {"tokenizer.json": json.dumps(backend, ensure_ascii=False)}, False


def _special_token_of_template(token: str) -> dict[str, Any]:
    return {"SpecialToken": {"id": token, "type_id": 0}}


def _bpe_files(folder: Path, words: list[str], starts_with: str | None) -> dict[str, str]:
    """vocab.json, merges.txt and what frames a text. A piece that the dictionary lacks has an id behind its last one.

    fairseq reads such a piece as <unk>. Here the model refuses its id, which says that the text is not for it.
    """
    path, merges = (folder / name for name in BPE_FILES)
    pieces = read_json(path)
    check_ids(path, pieces.items())
    by_number = {str(i): piece for piece, i in pieces.items()}
    vocabulary = {by_number.get(word, word): i for i, word in enumerate(words)}
    if len(vocabulary) < len(words):
        raise CheckpointError(f"{path} and the dictionary give a piece two ids: use the files of this model")
    if not any(word in by_number for word in words):
        raise CheckpointError(f"{path} has no piece of the dictionary, whose words are no numbers of pieces: remove it")
    for piece in pieces:
        vocabulary.setdefault(piece, len(vocabulary))
    settings: dict[str, Any] = {"tokenizer_class": "BartTokenizer"}
    if starts_with is not None:
        settings = {
            "tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "bos_token": starts_with, "eos_token": "</s>",
            "unk_token": "<unk>", "pad_token": "<pad>",
        }  # fmt: skip
    return {
        "vocab.json": json.dumps(vocabulary, ensure_ascii=False),
        "merges.txt": "\n".join(read_lines(merges)) + "\n",
        "tokenizer_config.json": json.dumps(settings, indent=1),
    }
