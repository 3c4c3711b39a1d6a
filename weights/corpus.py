"""Reads the training texts, for the scripts that train and score the bundled models."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

END_OF_TEXT = "<|endoftext|>"


def read_text(path: Path) -> str:
    """One file as text: paragraphs on one line each, so that hard-wrapped books do not teach line breaks."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SystemExit(f"{path} is not UTF-8 ({error}): convert it first") from None
    paragraphs = re.split(r"\n\s*\n", text.replace("\r\n", "\n"))
    joined = (" ".join(line.strip() for line in p.splitlines()).strip() for p in paragraphs)
    return "\n\n".join(p for p in joined if p)


def split_files(folder: Path, remainder: int, modulus: int) -> tuple[list[Path], list[Path]]:
    """(trained on, held out): held out if the index in the sorted list leaves `remainder` modulo `modulus`."""
    files = sorted(folder.glob("*.txt"))
    if not files:
        raise SystemExit(f"no *.txt files in {folder}: name a folder that holds the training texts")
    held_out = [f for i, f in enumerate(files) if i % modulus == remainder]
    return [f for f in files if f not in held_out], held_out


def encode_stream(tokenizer, texts: list[str]) -> np.ndarray:
    """All texts as one stream of token ids, each text opened by <|endoftext|>."""
    start = tokenizer.token_to_id(END_OF_TEXT)
    pieces = []
    for text in texts:
        pieces.append([start])
        pieces.append(tokenizer.encode(text).ids)
    return np.concatenate([np.asarray(p, dtype=np.int64) for p in pieces])


def corrupt_by_infilling(
    rng: np.random.Generator, ids: np.ndarray, mask_id: int, mean: float = 3.0
) -> tuple[np.ndarray, np.ndarray]:
    """(corrupted ids, which of `ids` were hidden): BART's text infilling, about 30 % of the tokens.

    Spans have Poisson(`mean`) lengths, zero included, and each becomes one `mask_id`; at least one token lies between
    two of them. A span starts before a visible token with the chance that hides 30 %.
    """
    chance = 0.3 / (0.7 * mean)
    hidden = np.zeros(len(ids), bool)
    corrupted: list[int] = []
    i = 0
    while i < len(ids):
        if rng.random() < chance:
            span = int(rng.poisson(mean))
            hidden[i : i + span] = True
            corrupted.append(mask_id)
            i += span
        corrupted.extend(ids[i : i + 1].tolist())
        i += 1
    return np.array(corrupted, np.int64), hidden
