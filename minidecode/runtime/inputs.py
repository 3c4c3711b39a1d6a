"""What callers give, texts or token ids, as checked token ids that fit the model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError, OptionError, counted
from ..files.chat import Message
from ..files.tokenizer import Tokenizer
from ..options.options import Options
from .arena import Extent
from .prompts import (
    advise_truncate,
    cut_sources,
    fit_prompts,
    fit_sources,
    fit_sources_in_front,
    split_ids_and_mask,
    token_rows,
)

Texts = str | Sequence[str] | Mapping[str, Any]  # one, several, or what a tokenizer of transformers made of them


@dataclass(frozen=True)
class Inputs:
    """Reads the inputs of one model: its tokenizer, vocabulary and context decide what is allowed."""

    config: Any
    tokenizer: Tokenizer | None
    defaults: dict[str, Any]  # of generation_config.json
    is_encoder_decoder: bool
    reads_in_front: bool = False  # sources, by the layers of their targets: both share one context
    prefix: str = ""  # what stands in front of each text that is given, as a task asks for
    tokenizer_files: str = "tokenizer.json"  # that a folder of this kind needs

    def fit_call(self, prompts, input_ids, attention_mask, options: Options, truncate: bool | None):
        """(sources, prompts, most new tokens of each): checked, and cut to what the model holds; see `fit_prompts`.

        A decoder-only model has no sources; in an encoder-decoder model each prompt is decoder_start_token_id alone.
        """
        context = self.config.context
        ids = self.read_texts_or_ids(prompts, input_ids, attention_mask, "prompt", self.most_tokens, truncate)
        if not self.is_encoder_decoder:
            return (), *fit_prompts(ids, context, options, truncate)
        if self.tokenizer is not None:
            self.tokenizer.check_target(options)
        start, contexts = self.decoder_start(options), context
        if self.reads_in_front:
            sources, closing = self._in_front(ids, start)
            sources = fit_sources_in_front(sources, context, options, truncate, closing)
            contexts = [context - len(source) for source in sources]
        else:
            sources = fit_sources(ids, self.config.source_context, truncate, self.count_closing(ids))
        return sources, *fit_prompts([start] * len(ids), contexts, options, False, sources)

    @property
    def most_tokens(self) -> int:
        """How many tokens of a prompt or a source the model holds."""
        if self.is_encoder_decoder and not self.reads_in_front:
            return self.config.source_context
        return self.config.context

    def fit_sources_beside_targets(
        self, sources: list[np.ndarray], targets: list[np.ndarray], start: np.ndarray, truncate: bool | None
    ) -> list[np.ndarray]:
        """Sources that fit, beside whole targets, which begin with the token `start`. Raises InputError."""
        if not self.reads_in_front:
            return fit_sources(sources, self.config.source_context, truncate, self.count_closing(sources))
        sources, closing = self._in_front(sources, start)
        return cut_sources(sources, list(map(len, targets)), self.config.context, truncate, closing)

    def _in_front(self, sources: list[np.ndarray], start: np.ndarray) -> tuple[list[np.ndarray], list[int]]:
        """UniLM's sources as it reads them, and how many tokens close each.

        With pos_shift, the token at the end is the first one of the target.
        """
        closing = self.count_closing(sources)
        if not self.config.pos_shift:
            return sources, closing
        read = [row[:-1] if len(row) > 1 and row[-1] == start[0] else row for row in sources]
        gone = [len(whole) - len(row) for whole, row in zip(sources, read, strict=True)]
        return read, [max(0, kept - less) for kept, less in zip(closing, gone, strict=True)]

    def count_closing(self, rows: list[np.ndarray]) -> list[int]:
        """How many tokens at the end of each row close it, and are no part of its text.

        The tokenizer says which; of token ids that a caller made, it is the end of text, and a language behind it.
        """
        closing_ids = None if self.tokenizer is None else self.tokenizer.closing_ids
        ends = np.atleast_1d(self.defaults.get("eos_token_id", -1))
        return [_count_closing(row, closing_ids, ends) for row in rows]

    def read_texts_or_ids(
        self, texts, input_ids, attention_mask, what: str = "prompt", most: int | None = None,
        truncate: bool | None = None,
    ) -> list[np.ndarray]:  # fmt: skip
        """Token ids without padding from texts or from ids, checked; `what` they are, for the errors.

        most: how many tokens of a text the model holds. With truncate a long text may come without some of those beyond
        them, from the end that is cut, and without it InputError is raised before it is read whole.
        """
        name = {"target": "target_ids", "negative_prompt": "negative_prompt_ids"}.get(what, "input_ids")
        if isinstance(texts, Mapping) and input_ids is None:  # of a tokenizer of transformers
            (input_ids, attention_mask), texts = split_ids_and_mask(texts, attention_mask, f"{what}s"), None
        if (texts is None) == (input_ids is None):
            raise InputError(f"give either {what}s or {name} (token ids)")
        if texts is not None and attention_mask is not None:
            raise InputError("attention_mask goes with input_ids: texts bring no padding")
        ids = (
            token_rows(input_ids, attention_mask, name)
            if texts is None
            else self._encode(texts, what, name, most, truncate)
        )
        return self.check_ids(ids, what)

    def prefixes(self, prefix_tokens, sentences: int) -> list[np.ndarray] | None:
        """The prefixes as arrays, if there are as many as sentences and their ids are in the vocabulary."""
        if prefix_tokens is None:
            return None
        prefixes = token_rows(prefix_tokens, None, "prefix_tokens")
        if len(prefixes) != sentences:
            raise InputError(
                f"prefix_tokens has {counted(len(prefixes), 'row')} for {counted(sentences, 'sentence')}: give each one"
            )
        V = self.config.generated_vocab_size
        for row in prefixes:
            if len(row) and (row.min() < -1 or row.max() >= V):
                bad = row[(row < -1) | (row >= V)][0]
                raise InputError(f"prefix_tokens: {bad} is neither in the vocabulary of {V} tokens nor -1 (free)")
        return prefixes

    def negative_prompts(
        self, texts, ids, prompts: list[np.ndarray], limit_B, options: Options, truncate: bool | None
    ) -> list[np.ndarray] | None:
        """The negative prompt of each sentence, if guidance_scale asks for them: by default its prompt's last token.

        With truncate, negative prompts that are too long lose their beginnings, as prompts do; see `fit_prompts`.
        Raises OptionError where they would change nothing, InputError on those that cannot be used.
        """
        is_given = texts is not None or ids is not None
        if options.guidance_scale == 1.0:
            if is_given:
                raise OptionError("negative_prompt changes nothing without guidance_scale: add it, such as 1.5")
            return None
        if self.is_encoder_decoder:
            raise OptionError("guidance_scale is for decoder-only models: leave it out")
        if not is_given:
            return [prompt[-1:] for prompt in prompts]
        negatives = self.read_texts_or_ids(texts, ids, None, "negative_prompt", self.most_tokens, truncate)
        if len(negatives) not in (1, len(prompts)):
            raise InputError(
                f"got {counted(len(negatives), 'negative prompt')} for {counted(len(prompts), 'prompt')}: give"
                " one, or one for each"
            )
        negatives *= len(prompts) // len(negatives)
        for b, (negative, limit) in enumerate(zip(negatives, limit_B, strict=True)):
            room = self.config.context + 1 - int(limit)  # the last new token is never read
            if len(negative) > room and not truncate:
                raise InputError(
                    f"negative prompt {b + 1} has {counted(len(negative), 'token')}, and {limit} new ones go beyond"
                    f" the context of {self.config.context}: shorten it, or lower max_new_tokens"
                    + advise_truncate(truncate, "it")
                )
            negatives[b] = negative[-room:]
        return negatives

    def no_tokenizer_message(self, instead: str) -> str:
        """The error where texts are given and the model has no tokenizer."""
        return f"this model folder has no tokenizer: add its {self.tokenizer_files}, or {instead}"

    def _encode(self, prompts, what: str, name: str, most: int | None, truncate: bool | None) -> list[np.ndarray]:
        if self.tokenizer is None:
            raise InputError(self.no_tokenizer_message(f"pass {name}"))
        if not isinstance(prompts, Iterable):
            raise InputError(f"{what}s must be a text or several, not {prompts!r}")
        texts = [prompts] if isinstance(prompts, str) else list(prompts)
        if not all(isinstance(t, str) for t in texts):
            raise InputError(f"{what}s must be texts; pass token ids as {name}")
        if what == "target":
            rows = [self.tokenizer.encode_target(t) for t in texts]
            return [row[1:] for row in rows] if self.reads_in_front else rows  # without [CLS]
        prefix = self.prefix if what in ("prompt", "text") else ""
        texts = [prefix + t for t in texts]
        if most is not None:
            at_end = bool(truncate) and not self.is_encoder_decoder
            kind = "source" if self.is_encoder_decoder else what.replace("_", " ")
            whiches = [f"{kind} {b} of {len(texts)}" for b in range(1, len(texts) + 1)]
            texts = [self.shorten_text(t, most, truncate, w, at_end) for t, w in zip(texts, whiches, strict=True)]
        return [self.tokenizer.encode(t) for t in texts]

    def shorten_text(self, text: str, most: int, truncate: bool | None, which: str, at_end: bool = False) -> str:
        """As much of a long text as has more tokens than the model holds, from its end or its beginning.

        Raises InputError on such a text without truncate, before the rest of it is read.
        """
        assert self.tokenizer is not None  # it will read the text
        part = self.tokenizer.cut_to_ending if at_end else self.tokenizer.cut_to_beginning
        enough = most + 2  # a token more than can be held, and the last new one is never read
        is_too_long = not truncate and self.tokenizer.surely_has_tokens(text, enough)
        read = text if is_too_long else part(text, enough)
        if is_too_long or (len(read) < len(text) and not truncate):
            remedy = f"shorten it{advise_truncate(truncate, 'it')}"
            raise InputError(f"{which} has more than {most:,} tokens, and the model holds {most:,}: {remedy}")
        return read

    def encode_chat(self, messages: Sequence[Message], whole: bool = False) -> np.ndarray:
        """Token ids of a conversation, up to where the answer begins; see `Tokenizer.encode_chat`.

        whole: also of a long one of which the caller may leave out some.
        """
        if self.is_encoder_decoder:
            raise InputError("chat is for decoder-only models: give an encoder-decoder model its sources")
        if self.tokenizer is None:
            raise InputError("this model folder has no tokenizer: add its tokenizer.json and its chat template")
        return self.tokenizer.encode_chat(messages, None if whole else self.most_tokens)

    def check_ids(self, ids: list[np.ndarray], what: str = "prompt") -> list[np.ndarray]:
        """Returns the ids, if there are any and all are in the vocabulary."""
        if not ids:
            raise InputError(f"there is no {what}: give at least one")
        is_source = self.is_encoder_decoder and what != "target"
        V = self.config.source_vocab_size if is_source else self.config.vocab_size
        for b, row in enumerate(ids, 1):
            if len(row) == 0:
                remedy, bos = "leave it out", self.defaults.get("bos_token_id")
                if what == "prompt" and not self.is_encoder_decoder and isinstance(bos, int):
                    remedy = f"to start from nothing, give {self._how_to_type_the_first_token(bos)}"
                raise InputError(f"{what} {b} of {len(ids)} is empty: {remedy}")
            if row.min() < 0 or row.max() >= V:
                bad = row[(row < 0) | (row >= V)][0]
                raise InputError(f"{what} {b} of {len(ids)}: token id {bad} is not in the vocabulary of {V} tokens")
        return ids

    def _how_to_type_the_first_token(self, bos: int) -> str:
        """What to type for a prompt of the first token alone: a text where one is read as that token, or its id."""
        ids = f"input_ids=[[{bos}]]"
        if self.tokenizer is None:
            return ids
        text = self.tokenizer.decode([bos], keep_special=True)
        is_read = text and self.tokenizer.encode(text).tolist() == [bos]
        return f'"{text}"' if is_read else ids

    def check_generated(self, targets: list[np.ndarray]) -> None:
        """Raises InputError on a target with a token that the model never generates, such as Marian's padding."""
        V = self.config.generated_vocab_size
        for b, row in enumerate(targets, 1):
            if row.max() >= V:
                raise InputError(
                    f"target {b} of {len(targets)}: token id {row.max()} is never generated by this model, so it has "
                    "no score: leave it out"
                )

    def decoder_start(self, options: Options) -> np.ndarray:
        start = options.decoder_start_token_id
        has_language = self.tokenizer is not None and self.tokenizer.begins_with_language
        if start is None and not has_language:
            start = self.defaults.get("bos_token_id")
        if start is None:
            language = ", or give target_lang" if has_language else ""
            raise OptionError(
                f"decoder_start_token_id is set nowhere: put it into generation_config.json, or pass it{language}"
            )
        return np.array([start])


def _count_closing(row: np.ndarray, closing_ids: tuple[int, ...] | None, ends: np.ndarray) -> int:
    if closing_ids and tuple(row[-len(closing_ids) :].tolist()) == closing_ids:
        return len(closing_ids)
    if len(row) > 1 and row[-2] in ends:
        return 2
    return int(closing_ids is None or row[-1] in ends)


def extent_of(sources, prompts, limit_B, negatives: list[np.ndarray] | None = None) -> Extent:
    """How large a request is, whichever of its two prompts is the longer one."""
    prompt_B = np.array([len(p) for p in prompts])
    if negatives:
        prompt_B = np.maximum(prompt_B, [len(p) for p in negatives])
    longest_source = max(map(len, sources), default=0)
    return Extent(len(prompts), longest_source, int(prompt_B.max()), int(max(limit_B)), int((prompt_B + limit_B).max()))


def token_callback(
    streamer: Any, prompts: list[np.ndarray], options: Options
) -> tuple[Callable[[int, int], None], Callable[[], None]]:
    """(what gets each text's number and token id, what is called at the end) for a streamer.

    It is a function, or an object with `put` and `end` such as transformers' TextStreamer, which serves one text: it
    gets the prompt's ids first. Raises OptionError on anything else, and with a beam.
    """
    if options.num_beams > 1:
        raise OptionError("a streamer needs num_beams=1: a beam's text is not settled until the search ends")
    if callable(getattr(streamer, "put", None)) and callable(getattr(streamer, "end", None)):
        if len(prompts) * options.num_return_sequences > 1:
            raise OptionError("a streamer with put and end serves one text: give one prompt, or a function")
        streamer.put(prompts[0][None])
        return lambda text, token: streamer.put(np.array([token])), streamer.end
    try:
        inspect.signature(streamer).bind(0, 0)
    except (TypeError, ValueError) as error:  # ValueError: a function of C's does not say what it takes
        if not callable(streamer) or isinstance(error, TypeError):
            raise OptionError(
                f"streamer must be a function of (text number, token id), not {streamer!r:.80}: pass one, such as "
                "lambda text, token: print(token)"
            ) from None
    return streamer, lambda: None
