"""How likely a model finds texts: the log-probability of each token, perplexity, bits per byte."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError, NumericalError, OptionError
from ..runtime.engine import Engine


@dataclass(frozen=True)
class Scores:
    """What `Model.score` returns, an entry per text: its scored tokens. `scores[0]` is the first text alone.

    Log-probabilities are natural logarithms. perplexity, bits_per_byte and accuracy are over all texts together.
    """

    token_ids: list[np.ndarray]
    token_log_probs: list[np.ndarray]
    likeliest_ids: list[np.ndarray]  # what the model would have said first in place of each token
    bytes: list[int] | None  # of UTF-8 that the tokens stand for, special ones for none; None: the tokenizer cannot say

    def __len__(self) -> int:
        return len(self.token_ids)

    def __getitem__(self, text: int) -> Scores:
        size = None if self.bytes is None else [self.bytes[text]]
        return Scores([self.token_ids[text]], [self.token_log_probs[text]], [self.likeliest_ids[text]], size)

    @classmethod
    def joined(cls, each: Sequence[Scores]) -> Scores:
        """Several as one, text after text."""
        sizes = [s.bytes for s in each if s.bytes is not None]
        return cls(
            [ids for s in each for ids in s.token_ids],
            [log_probs for s in each for log_probs in s.token_log_probs],
            [ids for s in each for ids in s.likeliest_ids],
            [size for of_one in sizes for size in of_one] if len(sizes) == len(each) else None,
        )

    @property
    def tokens(self) -> np.ndarray:
        """How many were scored, by text."""
        return np.array([len(ids) for ids in self.token_ids])

    @property
    def log_probs(self) -> np.ndarray:
        """The sum over the tokens of each text, in float64."""
        return np.array([p.sum(dtype=np.float64) for p in self.token_log_probs])

    @property
    def perplexity(self) -> float:
        """exp(-mean log-probability of a token): as unsure as between so many equally likely tokens."""
        with np.errstate(over="ignore"):  # infinite where a token was impossible
            return float(np.exp(-self.log_probs.sum() / self.tokens.sum()))

    @property
    def bits_per_byte(self) -> float:
        """-log2 of the probability, by byte of text: comparable between vocabularies. NaN without any byte."""
        if self.bytes is None:
            raise InputError("the bytes of these tokens are not known: this model folder has no byte-level tokenizer")
        size = sum(self.bytes)
        return float(-self.log_probs.sum() / math.log(2) / size) if size else math.nan

    @property
    def accuracy(self) -> float:
        """The share of tokens that were the model's first choice."""
        right = sum(int((a == b).sum()) for a, b in zip(self.token_ids, self.likeliest_ids, strict=True))
        return right / int(self.tokens.sum())


@dataclass(frozen=True)
class Piece:
    """What one forward pass does of a text: `scored` are the tokens that come after the last len(scored) of `read`."""

    text: int
    read: np.ndarray
    scored: np.ndarray
    source: np.ndarray | None = None

    @property
    def size(self) -> int:
        """Tokens that go through the model."""
        return len(self.read) + (0 if self.source is None else len(self.source))


def windows(count: int, first: int, context: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """(start, first, end) of each window, so that each of the tokens `first` to `count` is scored once.

    A window reads up to `context` tokens from `start` on, so it can score up to the one behind them (`end` excluded);
    it scores what the windows before it did not reach. The next one starts `stride` later.
    """
    start = 0
    while first < count:
        end = min(count, start + context + 1)
        if end > first:
            yield start, first, end
            first = end
        start += stride


def checked_stride(stride: int | None, context: int) -> int:
    """Tokens from window to window: half a context by default. Raises OptionError on what is none."""
    stride = max(1, context // 2) if stride is None else stride
    if isinstance(stride, bool) or not isinstance(stride, numbers.Integral) or not 1 <= stride <= context:
        raise OptionError(f"stride must be an integer from 1 to the context, {context}, not {stride!r}")
    return int(stride)


def text_pieces(
    texts: Sequence[np.ndarray], targets: Sequence[np.ndarray] | None, context: int, stride: int
) -> list[Piece]:
    """For a decoder-only model: every token after the first of each text, or those of its target, which follows it."""
    pieces = []
    for b, text in enumerate(texts):
        if targets is None and len(text) == 1:
            raise InputError(
                f"text {b + 1} of {len(texts)} has one token, and the first token of a text is not scored: "
                "begin it with the token that texts begin with, such as <|endoftext|>"
            )
        ids, first = (text, 1) if targets is None else (np.concatenate([text, targets[b]]), len(text))
        for start, scored, end in windows(len(ids), first, context, stride):
            pieces.append(Piece(b, ids[start : end - 1], ids[scored:end]))
    return pieces


def target_pieces(
    sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], start: np.ndarray, context: int
) -> list[Piece]:
    """For an encoder-decoder model: every token of each target, the first of them after decoder_start_token_id."""
    pieces = []
    for b, (source, target) in enumerate(zip(sources, targets, strict=True)):
        if len(target) > context:
            raise InputError(
                f"target {b + 1} of {len(targets)} has {len(target)} tokens and the decoder holds {context}: shorten it"
            )
        pieces.append(Piece(b, np.concatenate([start, target[:-1]]), target, source))
    return pieces


def batches(pieces: Iterable[Piece], most: int) -> Iterator[list[Piece]]:
    """Neighbours together as long as they are at most `most` tokens; a longer piece goes alone."""
    batch: list[Piece] = []
    for piece in pieces:
        if batch and sum(p.size for p in batch) + piece.size > most:
            yield batch
            batch = []
        batch.append(piece)
    if batch:
        yield batch


def score_pieces(
    engine: Engine, pieces: list[Piece], texts: int, most: int, progress: Callable[[int, int], None] | None = None,
    best: int = 1, may_be_nan: bool = False, z_BZ: np.ndarray | None = None,
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:  # fmt: skip
    """(log-probabilities, the `best` first choices, theirs) of the scored tokens of each text.

    z_BZ: the latent of each text, for a model that has one.
    Forward passes are of about `most` tokens. progress(tokens scored, of how many) is called after each.
    Raises NumericalError on NaN, unless it may be.
    """
    found: list[tuple[list[np.ndarray], ...]] = [([], [], []) for _ in range(texts)]
    done, total = 0, sum(len(p.scored) for p in pieces)
    for batch in batches(pieces, most):
        if batch[0].source is not None:
            engine.encode([p.source for p in batch])
        if z_BZ is not None:
            engine.read_latent(z_BZ[[p.text for p in batch]])
        scores = engine.score([p.read for p in batch], [p.scored for p in batch], best)
        ends = np.cumsum([len(p.scored) for p in batch])
        for piece, end in zip(batch, ends, strict=True):
            mine = slice(end - len(piece.scored), end)
            if not may_be_nan and np.isnan(scores[0][mine]).any():
                raise NumericalError(f"the model's scores are NaN in text {piece.text + 1} of {texts}")
            for part, part_R in zip(found[piece.text], scores, strict=True):
                part.append(part_R[mine])
        done += int(ends[-1])
        if progress:
            progress(done, total)
    log_probs, first_ids, first_log_probs = ([np.concatenate(parts[i]) for parts in found] for i in range(3))
    return log_probs, first_ids, first_log_probs
