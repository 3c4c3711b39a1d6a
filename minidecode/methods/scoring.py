"""How likely a model finds texts: the log-probability of each token, perplexity, bits per byte."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cache.factory import CacheFactory
from ..cache.no_cache import NoCache
from ..device.arrays import fetch
from ..device.blas_threads import few_blas_threads
from ..errors import InputError, NumericalError, OptionError, counted
from ..options.options import Options
from ..plan import Plan
from ..runtime.engine import Engine
from ..runtime.inputs import Texts
from ..runtime.output import LogProbs
from ..runtime.prompts import fit_prompts, token_rows
from ..runtime.receipt import CountedOps
from .latents import latents_of
from .loaded import LoadedModel, explain_nan, refuse_encoder_alone
from .out_of_memory import retries_after_freeing


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
    def join(cls, each: Sequence[Scores]) -> Scores:
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
        """exp(-mean log-probability of a token): as unsure as a choice between that many equally likely tokens."""
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


@retries_after_freeing
def logits(
    model: LoadedModel, input_ids: Any, attention_mask: Any = None, decoder_input_ids: Any = None,
    decoder_attention_mask: Any = None, latent: Any = None,
) -> list[np.ndarray]:  # fmt: skip
    """The scores before softmax of every position, one array (N, V) per sentence, padding left out.

    An encoder-decoder model takes its sources as input_ids and its targets as decoder_input_ids, which must begin
    with decoder_start_token_id to mean what they do in training; the scores are those of the targets' positions.
    latent: as for `generate`.
    """
    refuse_encoder_alone(model)
    if _is_text(input_ids) or _is_text(decoder_input_ids):
        raise InputError(
            "logits takes token ids, not texts: pass [model.tokenizer.encode(text)], or call score(text) for the "
            "log-probabilities of its tokens"
        )
    if model.is_encoder_decoder != (decoder_input_ids is not None):
        what = "needs" if model.is_encoder_decoder else "takes no"
        raise InputError(f"this model {what} decoder_input_ids beside input_ids")
    if decoder_input_ids is None and decoder_attention_mask is not None:
        raise InputError("decoder_attention_mask goes with decoder_input_ids, which this model does not take")
    ids, context = model.inputs.check_ids(token_rows(input_ids, attention_mask)), model.config.context
    engine, sources = make_scoring_engine(model, model.plan.on(model.device)), []
    if model.is_encoder_decoder:
        sources, ids = ids, model.inputs.check_ids(token_rows(decoder_input_ids, decoder_attention_mask), "target")
        if len(sources) != len(ids):
            raise InputError(
                f"got {counted(len(sources), 'source')} and {len(ids)} decoder_input_ids: give each one target"
            )
        sources = model.inputs.fit_sources_beside_targets(sources, ids, ids[0], truncate=None)
    ids, _ = fit_prompts(ids, context, Options(), truncate=None)
    z_BZ = latents_of(model, latent, None, ids)
    with few_blas_threads(model.is_small):
        if sources:
            engine.encode(sources)
        if z_BZ is not None:
            engine.read_latent(z_BZ)
        logits_RV = fetch(engine.prefill(ids, every_row=True))
    return np.split(logits_RV, np.cumsum([len(i) for i in ids])[:-1])


@retries_after_freeing
def score(
    model: LoadedModel,
    texts: Texts | None = None,
    *,
    input_ids: Any = None,
    attention_mask: Any = None,
    targets: str | Sequence[str] | None = None,
    target_ids: Any = None,
    stride: int | None = None,
    truncate: bool = False,
    decoder_start_token_id: int | None = None,
    latent: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> Scores:
    """How likely the model finds texts: the log-probability of each token after those before it; see `Scores`.

    texts, or input_ids and attention_mask: as for `generate`. The first token of a text comes after nothing, so it
    is not scored; begin the text with <|endoftext|> to have all of it scored.
    targets (texts) or target_ids: one for each text; these alone are scored, after their text, or for an
    encoder-decoder model given their source, and it needs them. `generate`'s token_ids as target_ids score what
    `generate` says (before length_penalty), where no option changed the model's own probabilities of them.
    stride: a text longer than the context is read in windows that start this many tokens apart, half a context by
    default. Each token is scored once, by the first window that reaches it; so all but those of the first window
    come after at least context - stride tokens. truncate: cut sources that are too long at their end.
    decoder_start_token_id: instead of the model's. latent: as for `generate`, of all texts or of each.
    progress: called with (tokens scored, of how many).

    Logits exist for a few rows at a time, so long texts and large vocabularies take no more memory than a
    forward pass does. Raises InputError on texts that cannot be used, NumericalError on NaN scores.
    """
    check_scoring(model, stride, truncate)
    most = model.inputs.most_tokens if model.is_encoder_decoder else None  # other texts are read window by window
    ids = model.inputs.read_texts_or_ids(texts, input_ids, attention_mask, "text", most, truncate)
    target_rows = None
    if targets is not None or target_ids is not None:
        target_rows = model.inputs.read_texts_or_ids(targets, target_ids, None, "target")
        model.inputs.check_generated(target_rows)
        if len(target_rows) != len(ids):
            raise InputError(
                f"got {counted(len(ids), 'text')} and {counted(len(target_rows), 'target')}: give each its own"
            )
    pieces = cut_into_pieces(model, ids, target_rows, stride, truncate, decoder_start_token_id)
    z_BZ = latents_of(model, latent, None, ids)
    engine = make_scoring_engine(model, model.plan.on(model.device))
    try:
        with few_blas_threads(model.is_small):
            context = model.config.context
            log_probs, best, _ = score_pieces(engine, pieces, len(ids), context, progress, z_BZ=z_BZ)
    except NumericalError as error:
        raise NumericalError(f"{error}{explain_nan(model, model.plan)}") from None
    scored = [row[1:] for row in ids] if target_rows is None else target_rows
    sizes = [] if model.tokenizer is None else [model.tokenizer.bytes_of_tokens(row) for row in scored]
    known = [size for size in sizes if size is not None]
    likeliest = [best_RK[:, 0] for best_RK in best]
    return Scores(scored, log_probs, likeliest, known if len(known) == len(scored) else None)


def score_new_tokens(
    model: LoadedModel, sources, prompts, new_ids: list[np.ndarray], plan: Plan, best: int, may_be_nan: bool, z_BZ
) -> list[LogProbs]:
    """The model's own log-probabilities of new tokens, hypothesis by hypothesis, in a forward pass of their own."""
    each, context = len(new_ids) // len(prompts), model.config.context
    spoken = [i for i, ids in enumerate(new_ids) if len(ids)]  # the rules may leave a place empty
    ids = [new_ids[i] for i in spoken]
    if sources:
        pieces = target_pieces([sources[i // each] for i in spoken], ids, prompts[0], context)
    else:
        pieces = text_pieces([prompts[i // each] for i in spoken], ids, context, checked_stride(None, context))
    engine = make_scoring_engine(model, plan)
    if z_BZ is not None:
        z_BZ = z_BZ[[i // each for i in spoken]]
    with few_blas_threads(model.is_small):
        scored = score_pieces(engine, pieces, len(spoken), context, None, max(1, best), may_be_nan, z_BZ)
    each_text = zip(spoken, *scored, strict=True)
    by_place = {i: LogProbs(token_R, ids_RK, logprob_RK, best) for i, token_R, ids_RK, logprob_RK in each_text}
    return [by_place.get(i, LogProbs.make_empty_place(best)) for i in range(len(new_ids))]


def make_scoring_engine(model: LoadedModel, plan: Plan) -> Engine:
    """An engine that reads texts once. Nothing comes after the scored tokens, so no keys and values are kept."""
    functions, _ = plan.resolve(device=model.device, **model.plan_traits)
    return Engine(model.network, model.weights, CountedOps(functions), CacheFactory(NoCache), device=model.device)


def check_scoring(model: LoadedModel, stride: int | None, truncate: bool) -> None:
    """Raises OptionError on what `score` would refuse whatever the texts."""
    refuse_encoder_alone(model)
    if model.is_encoder_decoder and stride is not None:
        raise OptionError("stride is for decoder-only models: a target is read whole")
    if truncate and not model.is_encoder_decoder:
        raise OptionError("truncate is for sources: a decoder-only model scores all of a text, window after window")
    checked_stride(stride, model.config.context)


def tokenize_scored(
    model: LoadedModel, text: str, target: str | None, *, stride: int | None = None, truncate: bool = False
) -> tuple[np.ndarray, np.ndarray | None]:
    """The token ids of one text, and of its target if it has one, checked as `score` would.

    Raises InputError on texts that cannot be used.
    """
    most = model.inputs.most_tokens if model.is_encoder_decoder else None
    ids = model.inputs.read_texts_or_ids(text, None, None, "text", most, truncate)
    targets = None if target is None else model.inputs.read_texts_or_ids(target, None, None, "target")
    model.inputs.check_generated(targets or [])
    cut_into_pieces(model, ids, targets, stride, truncate)
    return ids[0], None if targets is None else targets[0]


def cut_into_pieces(
    model: LoadedModel, ids, target_rows, stride: int | None, truncate: bool, decoder_start_token_id=None
) -> list[Piece]:
    """What forward passes do of these texts and targets."""
    context = model.config.context
    if not model.is_encoder_decoder:
        return text_pieces(ids, target_rows, context, checked_stride(stride, context))
    if target_rows is None:
        raise InputError("this model scores targets given their sources: give targets (texts) or target_ids beside")
    start = model.inputs.decoder_start(scoring_options(model, decoder_start_token_id))
    sources = model.inputs.fit_sources_beside_targets(ids, target_rows, start, truncate)
    return target_pieces(sources, target_rows, start, context)


def scoring_options(model: LoadedModel, decoder_start_token_id: int | None) -> Options:
    """Options of which only decoder_start_token_id matters, in a call or else in generation_config.json."""
    if decoder_start_token_id is None:
        decoder_start_token_id = model.defaults.get("decoder_start_token_id")
    options = Options(decoder_start_token_id=decoder_start_token_id)
    options.check_vocabulary(model.config.vocab_size)
    return options


def _is_text(given: Any) -> bool:
    """Whether a text stands where token ids do, or a list of texts."""
    return isinstance(given, str) or (isinstance(given, list | tuple) and any(isinstance(row, str) for row in given))


@dataclass(frozen=True)
class Piece:
    """What one forward pass does of a text: `scored` are the tokens that come after the last len(scored) of `read`."""

    text: int
    read: np.ndarray
    scored: np.ndarray
    source: np.ndarray | None = None

    @property
    def input_tokens(self) -> int:
        """Tokens that go through the model."""
        return len(self.read) + (0 if self.source is None else len(self.source))


def cut_into_windows(count: int, first: int, context: int, stride: int) -> Iterator[tuple[int, int, int]]:
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
        for start, scored, end in cut_into_windows(len(ids), first, context, stride):
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


def batch_pieces(pieces: Iterable[Piece], most: int) -> Iterator[list[Piece]]:
    """Neighbours together as long as they are at most `most` tokens; a longer piece goes alone."""
    batch: list[Piece] = []
    for piece in pieces:
        if batch and sum(p.input_tokens for p in batch) + piece.input_tokens > most:
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
    parts_of_text: list[tuple[list[np.ndarray], ...]] = [([], [], []) for _ in range(texts)]
    done, total = 0, sum(len(p.scored) for p in pieces)
    for batch in batch_pieces(pieces, most):
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
            for part, part_R in zip(parts_of_text[piece.text], scores, strict=True):
                part.append(part_R[mine])
        done += int(ends[-1])
        if progress:
            progress(done, total)
    log_probs, first_ids, first_log_probs = ([np.concatenate(parts[i]) for parts in parts_of_text] for i in range(3))
    return log_probs, first_ids, first_log_probs
