"""One request: what was asked, how far it is, and its answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ..options.options import Options
from ..runtime.output import LogProbs, Output
from ..runtime.receipt import Receipt
from ..search.result import Request

TokenCallback = Callable[[int, int, Any], None]
State = Literal["waiting", "running", "done", "cancelled", "failed"]


@dataclass(eq=False)
class Job:
    """A request of one prompt (or source), from `Scheduler.submit` to its answer.

    on_token(text, id, logprobs) is called within a step for each new token: the number of the text among those asked
    for, and (its log-probability, the ids of the likeliest tokens, theirs) if logprobs were asked for. Beams tell
    nothing before they end. on_end(job) is called when it is over, whatever its state is then.
    """

    options: Options
    request: Request
    sources: list[np.ndarray]
    bytes: int  # that it may take, by the footprint that `generate` uses
    lane_key: tuple[Any, ...] | None
    logprobs: int | None = None
    on_token: TokenCallback | None = None
    on_end: Callable[[Job], None] | None = None
    number: int = -1  # by arrival: an older request goes first
    state: State = "waiting"
    error: Exception | None = None
    lane: Any = None  # a lane (lanes.py) of a request that was preempted: its rows, with all that they have chosen
    texts: dict[int, tuple[np.ndarray, float]] = field(default_factory=dict)  # that have ended: tokens, score
    noted: dict[int, list[Any]] = field(default_factory=dict)  # log-probabilities by text
    output: Output | None = None
    arrived: float = field(default_factory=time.perf_counter)
    first_token: float | None = None  # when it was there
    ended: float | None = None
    preempted: int = 0  # how often
    reused_tokens: int = 0  # of its prompt that were not read, because another request had computed them

    @property
    def rows(self) -> int:
        """Rows that it takes when it joins."""
        if self.lane is not None:
            return len(self.lane)
        return self.options.num_beams if self.options.num_beams > 1 else self.options.num_return_sequences

    def texts_to_read(self) -> list[np.ndarray]:
        """The texts that are read before it joins: its prompt, or all that its rows have but their newest tokens."""
        return [self.request.prompts[0]] if self.lane is None else [text[:-1] for text in self.lane.written_texts()]

    @property
    def runs(self) -> bool:
        return self.state == "running"

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "cancelled", "failed")

    @property
    def answer(self) -> Output:
        """The output of a request that is done."""
        assert self.output is not None, f"the request is {self.state}"
        return self.output

    def end(self, state: State) -> None:
        """Marks the job as over; it holds no rows any more."""
        self.state, self.lane, self.ended = state, None, time.perf_counter()

    def fail(self, error: Exception) -> None:
        """Ends the job without an answer; its first error counts."""
        if self.error is None:
            self.error = error
            self.end("failed")

    def add_token(self, text: int, token: int, noted: tuple[np.ndarray, np.ndarray, np.ndarray] | None) -> None:
        """A text has a new token."""
        if self.first_token is None:
            self.first_token = time.perf_counter()
        logprobs = None
        if noted is not None:
            logprobs = (float(noted[0][token]), noted[1], noted[2])
            self.noted.setdefault(text, []).append(logprobs)
        if self.on_token is not None:
            self.on_token(text, token, logprobs)

    def end_text(self, text: int, ids: np.ndarray, score: float) -> None:
        """A text has ended."""
        if self.runs:
            self.texts[text] = (ids, score)
            if len(self.texts) == self.options.num_return_sequences:
                self.end("done")

    def make_output(self, tokenizer: Any, plan: str, dtype: str, log_probs: list[LogProbs] | None) -> None:
        """The answer, as `generate` gives it."""
        texts = [self.texts[x] for x in range(len(self.texts))]
        ids = [ids for ids, _ in texts]
        limit_B, stopping = self.request.limit_B, self.request.stopping
        if stopping is not None and stopping.cut_at is not None:
            limit_B = np.minimum(limit_B, stopping.cut_at)
        receipt = Receipt(
            plan=plan, dtype=dtype, cache="a running batch",
            prompt_tokens=sum(map(len, self.sources or self.request.prompts)), reused_tokens=self.reused_tokens,
            new_tokens=sum(map(len, ids)), search=self.options.changed(),
        )  # fmt: skip
        if log_probs is None and self.logprobs is not None:
            log_probs = [LogProbs.of_steps(self.noted[x], self.logprobs) for x in range(len(ids))]
        self.output = Output(
            ids, np.array([score for _, score in texts]), receipt, tokenizer, np.asarray(limit_B),
            log_probs=log_probs, stop_strings=self.options.stop_strings,
            keep_stop_strings=self.options.keep_stop_strings, eos_token_id=self.options.eos_token_id,
            prompt_ids=None if self.sources else self.request.prompts,
        )  # fmt: skip
