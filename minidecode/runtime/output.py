"""What a generation returns: token ids, scores, texts and the receipt."""

from __future__ import annotations

import html
import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from ..errors import InputError, OptionError, counted
from ..files.tokenizer import Tokenizer
from ..options.stop_strings import NewText
from .kept import Kept
from .receipt import DraftCounts, Receipt
from .trace import Trace


@dataclass(frozen=True)
class LogProbs:
    """Natural logarithms of the model's own probabilities, a row for each new token, EOS included."""

    token_R: np.ndarray  # of the tokens themselves
    best_RK: np.ndarray  # ids of the likeliest ones, first choice first
    best_logprob_RK: np.ndarray
    best: int  # how many of them were asked for

    @classmethod
    def make_empty_place(cls, best: int) -> LogProbs:
        """The output of a place that the rules left empty."""
        return cls(np.empty(0), np.empty((0, max(1, best)), np.int64), np.empty((0, max(1, best))), best)

    @classmethod
    def of_steps(cls, steps: list[tuple[float, np.ndarray, np.ndarray]], best: int) -> LogProbs:
        """Makes one of steps that were noted one by one: (its token's log-probability, the likeliest ids, theirs)."""
        token_R, best_RK, logprob_RK = zip(*steps, strict=True)
        return cls(np.array(token_R), np.array(best_RK), np.array(logprob_RK), best)

    @property
    def top_by_step(self) -> list[dict[int, float]]:
        """{token id: log-probability} of the likeliest tokens at each step, first choice first."""
        return [
            dict(zip(ids[: self.best].tolist(), scores[: self.best].tolist(), strict=True))
            for ids, scores in zip(self.best_RK, self.best_logprob_RK, strict=True)
        ]


def logprobs_of_step(logits_V: np.ndarray, best: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(log-probabilities, ids of the likeliest tokens, theirs) of the model's own scores after one text."""
    most = logits_V.max()
    logprob_V = logits_V - (most + np.log(np.exp(logits_V - most, dtype=np.float64).sum()))
    K = max(1, best)
    best_K = np.argpartition(-logprob_V, K - 1)[:K]
    best_K = best_K[np.lexsort((best_K, -logprob_V[best_K]))]
    return logprob_V, best_K, logprob_V[best_K]


def check_logprobs(logprobs: Any, vocab_size: int) -> None:
    """Raises OptionError unless it is a number of tokens that there are, or None."""
    is_number = isinstance(logprobs, numbers.Integral) and not isinstance(logprobs, bool)
    if logprobs is not None and not (is_number and 0 <= logprobs <= vocab_size):
        raise OptionError(f"logprobs must be an integer from 0 to {vocab_size}, the vocabulary, not {logprobs!r}")


@dataclass(repr=False)
class Output:
    """What `generate` returns: one entry per hypothesis, num_return_sequences of each prompt in turn, best first.

    `len(out)`, `out[0]` and `for hypothesis in out` read it hypothesis by hypothesis.
    """

    token_ids: list[np.ndarray]  # new tokens alone, EOS included where it was reached; BART's start token is left out
    scores: np.ndarray  # sum of log-probabilities / length ** length_penalty
    receipt: Receipt
    tokenizer: Tokenizer | None
    limits: np.ndarray  # most new tokens of each prompt
    trace: Trace | None = None  # if it was asked for
    stop_strings: tuple[str, ...] = ()
    keep_stop_strings: bool = False
    eos_token_id: tuple[int, ...] = ()
    prompt_ids: list[np.ndarray] | None = None  # of a decoder-only model: what the new tokens stand behind
    full_text: bool = False  # whether texts begin with their prompt, as return_full_text asks for
    log_probs: list[LogProbs] | None = None  # if logprobs asked for them
    kept: Kept | None = None  # what `keep` asked for, of every step
    drafts: list[DraftCounts] | None = None  # of each hypothesis, where tokens were drafted

    def __len__(self) -> int:
        return len(self.token_ids)

    @overload
    def __getitem__(self, which: int) -> Hypothesis: ...
    @overload
    def __getitem__(self, which: slice) -> list[Hypothesis]: ...
    def __getitem__(self, which: int | slice) -> Hypothesis | list[Hypothesis]:
        places = range(len(self))[which]  # raises IndexError, as a list does
        return Hypothesis(self, places) if isinstance(places, int) else [Hypothesis(self, place) for place in places]

    def __iter__(self) -> Iterator[Hypothesis]:
        return (Hypothesis(self, place) for place in range(len(self)))

    def __bool__(self) -> bool:  # else its length would decide
        return True

    def __repr__(self) -> str:
        return "\n".join(
            f"{score:9.4f}  {text!r}" for score, text in zip(self.scores, self._shown_texts(), strict=True)
        )

    def _repr_html_(self) -> str:
        """A table for notebooks: score, why it ended and text of each hypothesis; the receipt is folded below it."""
        rows = [
            f"<tr><td>{h.score:.4f}</td><td>{h.finish_reason or ''}</td>"
            f'<td style="text-align:left;white-space:pre-wrap">{html.escape(said)}</td></tr>'
            for h, said in zip(self, self._shown_texts(), strict=True)
        ]
        head = "<tr><th>score</th><th>finish reason</th><th>text</th></tr>"
        receipt = f"<details><summary>receipt</summary><pre>{html.escape(str(self.receipt))}</pre></details>"
        return f"<div><table>{head}{''.join(rows)}</table>{receipt}</div>"

    @property
    def texts(self) -> list[str]:
        """The new text of each hypothesis, up to its stop string, without special tokens.

        The prompt stands in front of it if `generate` was called with return_full_text=True.
        """
        return [self._text(place) for place in range(len(self))]

    @property
    def text(self) -> str:
        """The only text of a call that gave one. Raises OptionError where there are several: read `texts` then."""
        if len(self) != 1:
            raise OptionError(f"there are {len(self)} texts: read texts, such as out.texts[0], instead of text")
        return self._text(0)

    @property
    def finish_reasons(self) -> list[str | None]:
        """Why each hypothesis ended: see `Hypothesis.finish_reason`."""
        return [hypothesis.finish_reason for hypothesis in self]

    @property
    def token_logprobs(self) -> list[np.ndarray]:
        """The log-probability of each new token, by hypothesis; `generate` was called with logprobs=0 or more."""
        return [hypothesis.token_logprobs for hypothesis in self]

    @property
    def top_logprobs(self) -> list[list[dict[int, float]]]:
        """{id: log-probability} of the `logprobs` likeliest tokens, by hypothesis and new token."""
        return [hypothesis.top_logprobs for hypothesis in self]

    def _log_probs(self, place: int) -> LogProbs:
        if self.log_probs is None:
            raise OptionError(
                "log-probabilities were not asked for: call generate with logprobs=0, or a number of them"
            )
        return self.log_probs[place]

    def _shown_texts(self) -> list[str]:
        return self.texts if self.tokenizer else [counted(len(ids), "token") for ids in self.token_ids]

    def _decode_place(self, place: int) -> tuple[str, NewText]:
        """(the prompt's text, the new text with all of its stop string)."""
        if self.tokenizer is None:
            raise InputError("this model folder has no tokenizer: read token_ids instead of texts")
        before = () if self.prompt_ids is None else self.prompt_ids[self._prompt_index(place)]
        ids = self.token_ids[place]
        prompt = self.tokenizer.decode_both(before, ids)[0] if self.full_text else ""
        return prompt, self.tokenizer.new_text(before, ids, self.stop_strings)

    def _text(self, place: int) -> str:
        prompt, text = self._decode_place(place)
        return prompt + text.cut(self.stop_strings, self.keep_stop_strings)

    def _prompt_index(self, place: int) -> int:
        return place * len(self.limits) // len(self)  # each prompt has as many hypotheses

    def _finish_reason(self, place: int) -> str | None:
        ids = self.token_ids[place]
        if len(ids) == 0:
            return None
        if ids[-1] in self.eos_token_id or len(ids) < self.limits[self._prompt_index(place)]:
            return "stop"
        return "stop" if self.stop_strings and self._decode_place(place)[1].has(self.stop_strings) else "length"


@dataclass(frozen=True, repr=False)
class Hypothesis:
    """One entry of an `Output`."""

    output: Output
    index: int  # its place in the output

    def __repr__(self) -> str:
        said = repr(self.text) if self.output.tokenizer else counted(len(self.token_ids), "token")
        return f"Hypothesis({said}, score={self.score:.4f}, finish_reason={self.finish_reason!r}, prompt={self.prompt})"

    @property
    def text(self) -> str:
        """This text's entry of `Output.texts`."""
        return self.output._text(self.index)

    @property
    def token_ids(self) -> np.ndarray:
        """The new tokens, EOS included where it was reached.

        The start token of an encoder-decoder model is left out. In transformers, outputs begin with it.
        """
        return self.output.token_ids[self.index]

    @property
    def score(self) -> float:
        """This text's entry of `Output.scores`."""
        return float(self.output.scores[self.index])

    @property
    def finish_reason(self) -> str | None:
        """ "length" if the limit of new tokens or max_time cut the text off; "stop" if EOS, a stop string or a function
        of the caller's ended it.

        A text whose last token allowed is EOS, forced or not, has stopped. None if the rules left this place empty.
        """
        return self.output._finish_reason(self.index)

    @property
    def token_logprobs(self) -> np.ndarray:
        """This text's entry of `Output.token_logprobs`."""
        return self.output._log_probs(self.index).token_R

    @property
    def top_logprobs(self) -> list[dict[int, float]]:
        """This text's entry of `Output.top_logprobs`."""
        return self.output._log_probs(self.index).top_by_step

    @property
    def prompt(self) -> int:
        """The number of its prompt in the call, from 0."""
        return self.output._prompt_index(self.index)
