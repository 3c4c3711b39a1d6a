"""fairseq's data folders (`data-bin`): sentences as token ids, and the batches in which fairseq-generate reads them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import CheckpointError, OptionError
from .fairseq_tokenizer import Dictionary, is_language, read_lines

MAGIC = b"MMIDIDX\0\0"
DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2", 9: "<u4", 10: "<u8"}
HEADER = struct.Struct("<9sQBQ")  # magic, version, code of the dtype, how many sentences


def check_data_folder(folder: Path) -> None:
    """Raises CheckpointError where there is no such folder."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is no folder: name one that fairseq-preprocess wrote")


@dataclass(frozen=True)
class Pair:
    """The languages of a data folder, with their dictionaries."""

    folder: Path
    source_lang: str
    target_lang: str
    source: Dictionary
    target: Dictionary

    @classmethod
    def from_folder(cls, folder: Path, source_lang: str | None, target_lang: str | None) -> Pair:
        """Languages that are not given are read from the names of files, as fairseq does (`test.de-en.de.idx`).

        Raises OptionError where no name tells them, CheckpointError on a dictionary that cannot be read.
        """
        check_data_folder(folder)
        if source_lang is None or target_lang is None:
            names = [path.name.split(".") for path in sorted(folder.glob("*.*-*.*"))]
            pairs = {tuple(parts[1].split("-")) for parts in names if len(parts) >= 3 and parts[1].count("-") == 1}
            if len(pairs) != 1:
                raise OptionError(f"{folder} does not tell its two languages: add -s and -t")
            source_lang, target_lang = pairs.pop()
        for name in (source_lang, target_lang):
            if not is_language(name):
                raise OptionError(f"{name!r:.60} is no name of a language, such as de: choose another")
        sides = [Dictionary.from_file(folder / f"dict.{name}.txt") for name in (source_lang, target_lang)]
        return cls(folder, source_lang, target_lang, *sides)

    def sentences(self, subset: str, side: str) -> list[np.ndarray] | None:
        """Token ids of each sentence of a subset in one language, </s> at its end; None where there is no such file."""
        name, dictionary = {"source": (self.source_lang, self.source), "target": (self.target_lang, self.target)}[side]
        path = self.folder / f"{subset}.{self.source_lang}-{self.target_lang}.{name}"
        if path.with_name(path.name + ".idx").is_file():
            return read_indexed(path, len(dictionary))
        if path.is_file():  # --dataset-impl raw
            return [dictionary.encode(line) for line in read_lines(path)]
        return None


def read_indexed(path: Path, words: int) -> list[np.ndarray]:
    """The sentences of `PATH.idx` and `PATH.bin`, as fairseq-preprocess writes them by default.

    Raises CheckpointError on files that are damaged, of another kind, or with ids that a dictionary of this many words
    does not have. Sizes are compared with the files' before anything is read.
    """
    index, data = path.with_name(path.name + ".idx"), path.with_name(path.name + ".bin")
    if not data.is_file():
        raise CheckpointError(f"{data} is missing: put it beside {index.name}")
    size, available = index.stat().st_size, data.stat().st_size
    with index.open("rb") as file:
        head = file.read(HEADER.size)
        if len(head) < HEADER.size or not head.startswith(MAGIC):
            raise CheckpointError(
                f"{index} is no index of --dataset-impl mmap: run fairseq-preprocess without that option"
            )
        _, version, code, count = HEADER.unpack(head)
        if version != 1 or code not in DTYPES or size != HEADER.size + 12 * count:
            raise CheckpointError(f"{index} is damaged: run fairseq-preprocess again")
        sizes = np.frombuffer(file.read(4 * count), "<i4").astype(np.int64)
        begins = np.frombuffer(file.read(8 * count), "<i8")
    kind = np.dtype(DTYPES[code])
    if (sizes < 1).any() or (begins < 0).any() or (begins > available).any() or sizes.sum() * kind.itemsize > available:
        raise CheckpointError(f"{index} is damaged: run fairseq-preprocess again")
    if (begins + sizes * kind.itemsize > available).any():
        raise CheckpointError(f"{data} is shorter than {index.name} says: run fairseq-preprocess again")
    whole = data.read_bytes()
    sentences = [
        np.frombuffer(whole, kind, n, at).astype(np.int64) for n, at in zip(sizes, begins.tolist(), strict=True)
    ]
    if any(((ids < 0) | (ids >= words)).any() for ids in sentences):
        raise CheckpointError(f"{data} has ids that the dictionary of {words} words does not: use the folder's own")
    return sentences


def cut_into_batches(
    sizes: Sequence[np.ndarray], max_tokens: int | None, max_sentences: int | None, multiple: int
) -> Iterator[np.ndarray]:
    """The numbers of the sentences in each batch, in fairseq's order.

    sizes: tokens of each source, and of each target if there are any. Sentences are sorted by source, then by target;
    a batch is closed at this many sentences or padded tokens, and cut to a multiple of `multiple` sentences. In a batch
    the longest source comes first.
    """
    order = np.lexsort(tuple(reversed(sizes)))
    longest = np.max(sizes, axis=0)
    batch: list[int] = []
    for i in order.tolist():
        padded = (len(batch) + 1) * max(longest[j] for j in [*batch, i])
        if batch and (len(batch) == max_sentences or (max_tokens is not None and padded > max_tokens)):
            cut = max(multiple * (len(batch) // multiple), len(batch) % multiple)
            yield _sort_longest_first(batch[:cut], sizes[0])
            batch = batch[cut:]
        batch.append(i)
    if batch:
        yield _sort_longest_first(batch, sizes[0])


def _sort_longest_first(batch: list[int], size_X: np.ndarray) -> np.ndarray:
    return np.array(sorted(batch, key=lambda i: -size_X[i]))
