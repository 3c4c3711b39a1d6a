"""What a search is asked and what it hands back, and the checks that every search makes of a model's scores."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..device.arrays import array_like, fetch
from ..errors import NumericalError, OptionError
from ..ops import FINE, NO_ROOM, NOT_A_NUMBER
from ..options.options import Options
from ..runtime.draws import Draws, sentence_keys
from ..runtime.guidance import GuidedEngine
from ..runtime.receipt import DraftCounts
from .constraints import Constraint
from .rows import Rows
from .stopping import Stopping


@dataclass(frozen=True)
class Request:
    """The sentences of one call. Prompts are what texts begin with; sources what the encoder read, or the prompts."""

    prompts: list[np.ndarray]
    limit_B: np.ndarray  # most new tokens
    sources: list[np.ndarray]
    prefix_BP: np.ndarray | None = None  # tokens that new texts must begin with; see Rows
    keys_R2: np.ndarray | None = None  # for sampling: two random keys a text
    stopping: Stopping | None = None  # what ends texts beside EOS and limits
    constraint: Constraint | None = None  # what new texts must match
    guide: GuidedEngine | None = None  # the engine, where guidance_scale asks for scores behind other prompts too
    tables: dict[Any, Any] = field(default_factory=dict)  # of processors; see tables.py

    @classmethod
    def make(
        cls, prompts, limit_B, options: Options, sources=(), prefixes=None, copies=None,
        stopping: Stopping | None = None, constraint: Constraint | None = None,
    ) -> Request:  # fmt: skip
        """prefixes: by sentence, token ids; -1 leaves a place free. copies: see draws.sentence_keys."""
        sources = list(sources) or prompts
        prefix_BP = None
        if prefixes is not None:
            prefix_BP = np.full((len(prompts), max(map(len, prefixes))), -2)
            for b, prefix in enumerate(prefixes):
                prefix_BP[b, : len(prefix)] = prefix
        texts = options.num_return_sequences if options.num_beams == 1 else 1
        keys_R2 = sentence_keys(sources, copies, texts) if options.do_sample else None
        return cls(prompts, np.asarray(limit_B), sources, prefix_BP, keys_R2, stopping, constraint)

    @functools.cached_property  # asked for at every step
    def prompt_B(self) -> np.ndarray:
        """Tokens of each prompt."""
        return np.array([len(p) for p in self.prompts])

    def prompts_with_space(self, M: int) -> np.ndarray:
        """text_BM: the prompts, each in front of what it has room for."""
        text_BM = np.zeros((len(self.prompts), M), np.int64)
        for b, prompt in enumerate(self.prompts):
            text_BM[b, : len(prompt)] = prompt
        return text_BM

    def draws(self, logits_RV: np.ndarray) -> Draws | None:
        """The draws of the first tokens, beside the logits; none where nothing is sampled."""
        if (keys_R2 := self.keys_R2) is None:
            return None
        step_R = array_like(logits_RV, len(keys_R2), np.int64, 0)
        return Draws(array_like(logits_RV, keys_R2.shape, keys_R2.dtype, keys_R2), step_R)

    def rows_at(self, sentence_R: np.ndarray, step: int) -> Rows:
        """What the host knows of texts at a step without a look at them: it says which processors are due."""
        unseen = np.empty(0, np.int64)  # texts and lengths lie on a device
        return self.rows(unseen, unseen, sentence_R, step)

    def rows(
        self, tokens_RM: np.ndarray, length_R: np.ndarray, sentence_R: np.ndarray, step: int | None = None,
        tables: dict[Any, Any] | None = None,
    ) -> Rows:  # fmt: skip
        """tables: those of the search's state, where it has some."""
        prompt_R, limit_R = self.prompt_B[sentence_R], self.limit_B[sentence_R]
        given = self.sources, self.prefix_BP, step, self.constraint
        other_RV = None if self.guide is None else self.guide.unconditional_RV
        tables = self.tables if tables is None else tables
        return Rows(tokens_RM, length_R, prompt_R, limit_R, sentence_R, *given, other_RV, tables)


@dataclass
class Found:
    """Per sentence, the hypotheses best first: new tokens alone (EOS included), and their scores.

    Where the rules allow fewer texts than were asked for, the places left are empty and score -inf.
    """

    tokens: list[list[np.ndarray]]
    scores_BX: np.ndarray
    steps: int
    drafts: list[DraftCounts] | None = None  # by text, where they were drafted


def copy_results(
    finds: Iterable[np.ndarray], to: Iterable[np.ndarray], which_X: np.ndarray, number_X: np.ndarray
) -> None:
    """What those in `which` have found, by sentence or by text, into the arrays of all, to the places `number` says.

    Until somebody has left, both are the same arrays.
    """
    for found_XN, all_XN in zip(finds, to, strict=True):
        if found_XN is not all_XN:
            all_XN[number_X[which_X]] = found_XN[which_X]


def with_copied_results(state: Any) -> Any:
    """Texts or beams like these, over copies of what they have found.

    The arrays of a batch that shrinks may belong to a kept step, and so to the next generation that launches it.
    """
    finds = {id(array) for array in state.result_arrays()}
    return replace(state, **{name: array.copy() for name, array in vars(state).items() if id(array) in finds})


def scale_logits(ops, logits_RV: np.ndarray, options: Options) -> np.ndarray:
    """The model's logits; in a dialect whose temperature is part of the model, divided by it."""
    if options.rules.temperature_in_softmax and options.temperature != 1.0:
        return ops.apply_temperature(logits_RV, options.temperature)
    return logits_RV


def clear_trouble(trouble_R: np.ndarray, done_R: np.ndarray) -> None:
    """A finished text raises no error: what is noted of its row is cleared."""
    trouble_R[...] = np.where(done_R, FINE, trouble_R)


def raise_trouble(trouble_R: np.ndarray, sentence_R: np.ndarray, step: int) -> None:
    """Raises what an op has noted of a row whose search cannot go on; nothing if all is fine."""
    trouble_R = fetch(trouble_R)
    if trouble_R.any():
        first = int(np.flatnonzero(trouble_R)[0])
        error = {NOT_A_NUMBER: nan_scores_error, NO_ROOM: no_room_error}.get(int(trouble_R[first]), no_token_error)
        raise error(int(sentence_R[first]), step)


def no_room_error(sentence: int, step: int) -> RuntimeError:
    return RuntimeError(
        f"sentence {sentence + 1} has no room for its token of step {step + 1}: a step was launched once too often,"
        " which is a bug of minidecode"
    )


def no_token_error(sentence: int, step: int) -> OptionError:
    return OptionError(
        f"no token is left for sentence {sentence + 1} at step {step + 1}: the options forbid all of them; relax "
        "what bans (n-grams, words, tokens, a prefix, a least length, regex, json_schema), or ask for fewer new tokens"
    )


def check_logits(logits_RV: np.ndarray, done_R: np.ndarray, sentence_R: np.ndarray, step: int) -> None:
    """Raises NumericalError if the logits of a text that goes on give no probabilities: one is NaN or plus infinity, or
    all are minus infinity. For a search that is about to hand them to a user's function; else an op finds it.
    """
    bad_R = ~np.isfinite(fetch(logits_RV.max(axis=1))) & ~fetch(
        done_R
    )  # the largest of numbers among which is a NaN is NaN
    if bad_R.any():
        raise nan_scores_error(int(sentence_R[np.flatnonzero(bad_R)[0]]), step)


def nan_scores_error(sentence: int, step: int) -> NumericalError:
    return NumericalError(f"the model's scores are NaN at step {step + 1}, sentence {sentence + 1}")
