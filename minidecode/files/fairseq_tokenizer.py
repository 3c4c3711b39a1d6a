"""Text <-> token ids by fairseq's dictionaries (`dict.de.txt`), and by subword-nmt's codes where a folder has them."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CheckpointError, InputError
from .long_texts import Borders
from .stored import MOST_OF_TEXT, check_regular, read_json
from .tokenizer import Tokenizer, check_text
from .tokenizer_checks import check_ids

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
BOS, PAD, EOS, UNKNOWN = range(len(SPECIAL))
GOES_ON = "@@"  # behind a piece that is not the last of its word
ENDS = "</w>"  # behind the last character of a word, in codes and in FSMT's vocabularies
CODES = ("bpecodes", "code", "codes", "codes.txt", "bpe.codes", "merges.txt")  # the first that a folder has is taken
LONGEST_WORD = 2000  # characters; the time that merging takes grows with their square


class Dictionary:
    """Words by id, and ids by word."""

    def __init__(self, words: list[str], index: dict[str, int]):
        self.words, self.index = words, index

    @classmethod
    def from_file(cls, path: Path) -> Dictionary:
        """Lines `word count`, or `word count #fairseq:overwrite` where a word is there already: it gets a second id.

        As in fairseq, a line is split at its last space. Raises CheckpointError on a line that is none of this.
        """
        words, index = list(SPECIAL), {word: i for i, word in enumerate(SPECIAL)}
        for number, line in enumerate(read_lines(path), 1):
            rest, _, field = line.rstrip().rpartition(" ")
            overwrites = field == "#fairseq:overwrite"
            word, _, count = rest.rpartition(" ") if overwrites else (rest, "", field)
            if not count.lstrip("+-").isdecimal():
                raise CheckpointError(f"{path}: line {number} is {line!r:.60}, not a word, a space and its count")
            if word in index and not overwrites:
                raise CheckpointError(
                    f"{path}: line {number} has {word!r:.40} again: add #fairseq:overwrite to it if that is meant"
                )
            index[word] = len(words)
            words.append(word)
        return cls(words, index)

    @classmethod
    def from_vocabulary(cls, path: Path) -> Dictionary:
        """FSMT's vocab-src.json: {piece: id}, where </w> marks the last piece of a word and @@ is left out."""
        fields = read_json(path)
        check_ids(path, fields.items())
        if sorted(map(repr, fields.values())) != sorted(map(repr, range(len(fields)))):
            raise CheckpointError(f"{path}: the ids are not 0 to {len(fields) - 1}, each once: download the file again")
        words = [""] * len(fields)
        for piece, i in fields.items():
            ends = piece in SPECIAL or piece.endswith(ENDS)
            words[i] = piece.removesuffix(ENDS) if ends else piece + GOES_ON
        if tuple(words[:4]) != SPECIAL:
            raise CheckpointError(f"{path}: ids 0 to 3 are {words[:4]}, and fairseq's are {list(SPECIAL)}")
        return cls(words, {word: i for i, word in enumerate(words)})

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, pieces: str, add_special_tokens: bool = True) -> np.ndarray:
        """Token ids of a text in pieces, </s> at the end."""
        ids = [self.index.get(piece, UNKNOWN) for piece in pieces.split()]
        return np.array(ids + [EOS] * add_special_tokens, np.int64)


class Codes:
    """subword-nmt's merges, in the order in which they were learnt."""

    def __init__(self, merges: list[tuple[str, str]], ends_apart: bool):
        """ends_apart: the end of a word is a symbol of its own, as in the first version of these files."""
        self.rank = {pair: i for i, pair in reversed(list(enumerate(merges)))}
        self.ends_apart = ends_apart
        self._kept: dict[str, list[str]] = {}

    @classmethod
    def from_file(cls, path: Path) -> Codes:
        """Lines `a b`, after `#version: 0.2`; or fastBPE's and FSMT's `a b count`, which mean the same.

        Raises CheckpointError on a line of another kind.
        """
        lines, version = read_lines(path), "0.1"
        if lines and lines[0].startswith("#version:"):
            version = lines.pop(0).removeprefix("#version:").strip()
        merges = [tuple(line.strip("\r\n ").split(" ")) for line in lines if line.strip()]
        if bad := next((merge for merge in merges if len(merge) not in (2, 3)), None):
            raise CheckpointError(f"{path}: {' '.join(bad)!r:.60} is not two pieces to merge")
        has_counts = bool(merges) and len(merges[0]) == 3
        return cls([merge[:2] for merge in merges], version == "0.1" and not has_counts and path.name != "merges.txt")

    def split_text(self, text: str) -> str:
        """A text whose words are split into pieces. As in subword-nmt, words end at spaces alone."""
        words = text.strip("\r\n ").split(" ")
        return " ".join(piece for word in words if word for piece in self.split_word(word))

    def split_word(self, word: str) -> list[str]:
        """A word's pieces: of all pairs side by side, the one learnt first is merged everywhere, and so on."""
        if word not in self._kept:
            if len(self._kept) > 100_000:
                self._kept.clear()
            self._kept[word] = self._split(word)
        return self._kept[word]

    def _split(self, word: str) -> list[str]:
        if len(word) > LONGEST_WORD:
            raise InputError(f"a word of {len(word):,} characters is too long for BPE: at most {LONGEST_WORD:,} are")
        parts = [*word, ENDS] if self.ends_apart else [*word[:-1], word[-1] + ENDS]
        while len(parts) > 1:
            pair = min(itertools.pairwise(parts), key=lambda pair: self.rank.get(pair, len(self.rank)))
            if pair not in self.rank:
                break
            parts = list(merge_pair(parts, pair))
        parts[-1] = parts[-1].removesuffix(ENDS)
        parts = [part for part in parts if part] if len(word) > 1 else [word]
        return [*(part + GOES_ON for part in parts[:-1]), parts[-1]]


def merge_pair(parts: list[str], pair: tuple[str, str]) -> Iterator[str]:
    """The parts with each occurrence of a pair as one, from left to right."""
    i = 0
    while i < len(parts):
        is_pair = tuple(parts[i : i + 2]) == pair
        yield "".join(pair) if is_pair else parts[i]
        i += 2 if is_pair else 1


class FairseqTokenizer(Tokenizer):
    """`encode` by the source's dictionary, `decode` and `encode_target` by the target's.

    Words are split at spaces, as fairseq does. A text that a model was trained on in pieces (Moses) must come so.
    """

    _rewrites = False

    def __init__(self, source: Dictionary, target: Dictionary, codes: Codes | None = None, lowers: bool = False):
        self.source, self.target, self.codes, self.lowers = source, target, codes, lowers
        self.chat_template = None

    @classmethod
    def of_folder(cls, folder: Path, source_vocabulary: int, target_vocabulary: int) -> FairseqTokenizer | None:
        """A tokenizer by the dictionaries of the languages that config.json names, or FSMT's vocabularies; None without
        either.

        Raises CheckpointError on a dictionary that has not as many words as the model has embeddings.
        """
        fields = read_json(folder / "config.json")
        if (folder / "vocab-src.json").exists():
            paths = [folder / "vocab-src.json", folder / "vocab-tgt.json"]
            sides = [Dictionary.from_vocabulary(path) for path in paths]
        else:
            languages = [fields.get(f"{side}_lang") for side in ("source", "target")]
            if bad := [language for language in languages if not (language is None or is_language(language))]:
                raise CheckpointError(f"{folder / 'config.json'}: {bad[0]!r:.60} is no name of a language, such as de")
            paths = [folder / f"dict.{language}.txt" for language in languages]
            if not any(path.exists() for path in paths):
                if there := sorted(path.name for path in folder.glob("dict.*.txt")):
                    raise CheckpointError(
                        f"{folder} has {', '.join(there[:4])}, and its config.json names other languages or none: set "
                        "source_lang and target_lang in it, such as de and en"
                    )
                return None
            sides = [Dictionary.from_file(path) for path in paths]
        for path, dictionary, size in zip(paths, sides, (source_vocabulary, target_vocabulary), strict=True):
            if len(dictionary) != size:
                raise CheckpointError(
                    f"{path} has {len(dictionary)} words, the special ones included, and the model's table has {size}: "
                    "use the dictionary that the model was trained with"
                )
        codes = [folder / name for name in CODES if (folder / name).exists()]
        settings = folder / "tokenizer_config.json"
        lowers = settings.exists() and bool(read_json(settings).get("do_lower_case"))
        return cls(*sides, Codes.from_file(codes[0]) if codes else None, lowers)

    def __repr__(self) -> str:
        return f"FairseqTokenizer({len(self.source):,} words of the source, {len(self.target):,} of the target)"

    def encode(self, text: str, add_special_tokens: bool = True) -> np.ndarray:
        """Token ids of a source, </s> at the end. Raises InputError as `Tokenizer.encode` does."""
        return self._encode(text, self.source, add_special_tokens)

    def encode_target(self, text: str) -> np.ndarray:
        """Token ids of a target, </s> at the end."""
        return self._encode(text, self.target, True)

    def _encode(self, text: str, dictionary: Dictionary, add_special_tokens: bool) -> np.ndarray:
        check_text(text)
        text = text.lower() if self.lowers else text
        pieces = text if self.codes is None else self.codes.split_text(text)
        return dictionary.encode(pieces, add_special_tokens)

    def decode(self, ids: Any, keep_special: bool = False) -> str:
        """The text of a target's token ids, with the pieces of a word joined; special tokens but <unk> left out."""
        words = self.target.words
        left_out = () if keep_special else self.special_ids
        text = " ".join(words[i] for i in map(int, ids) if i not in left_out and i < len(words))
        return f"{text} ".replace(f"{GOES_ON} ", "").rstrip()

    def _piece(self, i: int) -> str | None:
        return self.target.words[i] if i < len(self.target) else None

    def bytes_of_tokens(self, ids: Any) -> int | None:
        return None

    def as_json(self) -> str:
        """All of it in one text, the same for tokenizers that do the same."""
        merges = None if self.codes is None else [*self.codes.rank, self.codes.ends_apart]
        return json.dumps([self.source.words, self.target.words, merges, self.lowers])

    @property
    def safe_borders(self) -> Borders | None:  # type: ignore[override]
        """The places where texts may be cut: spaces, as words are read one by one."""
        return Borders()

    @property
    def closing_ids(self) -> tuple[int, ...]:  # type: ignore[override]
        """The special token that stands behind each text."""
        return (EOS,)

    @property
    def special_ids(self) -> list[int]:  # type: ignore[override]
        """The ids that `decode` leaves out."""
        return [BOS, PAD, EOS]

    @property
    def size(self) -> int:
        return len(self.target)

    def most_tokens(self, count: int) -> int | None:
        return None

    def token_to_id(self, token: str) -> int | None:
        return self.target.index.get(token)


def is_language(name: object) -> bool:
    """Whether it can be SRC in dict.SRC.txt, a file of the same folder."""
    return isinstance(name, str) and len(name) <= 40 and re.fullmatch(r"[\w-]+(\.[\w-]+)*", name) is not None


def read_lines(path: Path) -> list[str]:
    """The lines of a text in UTF-8. Raises CheckpointError, with what to do, where it cannot be read."""
    check_regular(path, MOST_OF_TEXT)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing: put it there") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read as text in UTF-8: {error}") from None
    return lines[:-1] if lines[-1] == "" else lines
