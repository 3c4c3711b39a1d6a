"""Who runs when: requests wait, join the running batch between two steps, and leave it when they are done.

    scheduler = Scheduler(md.load("tiny-gpt2"))
    job = scheduler.submit("Fellow citizens,", num_beams=4, max_new_tokens=40)
    while not job.is_over:
        scheduler.step()
    print(job.output.texts[0])

`one_by_one` is the naive loop that this replaces: each request waits until all before it have their answers.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..cache.parts import Part
from ..device.blas_threads import few_blas_threads
from ..errors import MemoryBudgetError, MinidecodeError, OptionError, QueueFullError
from ..methods.generation import constraint_of, make_stopping
from ..methods.scoring import score_new_tokens
from ..options.typed_dict import GenerateOptions
from ..plan import Plan
from ..runtime.draws import check_sample_ids
from ..runtime.footprint import captured_rows_within, check_fits, footprint, parse_budget
from ..runtime.inputs import extent_of
from ..runtime.output import Output, check_logprobs
from ..search.result import Request
from .batch import Batch
from .jobs import Job, TokenCallback
from .lanes import Lane, lane_key, start_lane
from .plans import budget_of_requests, check_limits, checked_requests, plan_of_running_batch

if TYPE_CHECKING:
    from ..model import Model


@dataclass(kw_only=True)
class Reading(Part):
    """A text of a request that is being read: its next part, of which a step says how long it is."""

    job: Job
    logits_V: Any = None  # behind the part that was read last; None: nothing is read yet

    @property
    def tokens_left(self) -> int:
        """Tokens that are not read yet."""
        return len(self.ids) - self.first


def shared_out(left: Sequence[int], tokens: int) -> list[int]:
    """How many tokens of each text a step reads, where this many are left of each: the oldest text comes first.

    The oldest may have half of them, so that none waits for ever. The rest goes to those that have the least left: a
    short text is read while a long one is. What they leave over goes to the others.
    """
    shares = [min(left[0], -(-tokens // 2)), *[0] * (len(left) - 1)]
    for n in sorted(range(len(left)), key=lambda n: left[n] - shares[n]):
        shares[n] += min(left[n] - shares[n], tokens - sum(shares))
    return shares


class Scheduler:
    """Requests of one model, in the order of their arrival, as many at once as rows and memory allow.

    A request joins when there are rows for all of its beams (or texts) and memory for what `footprint` says that it may
    take. None overtakes one that came before it, so each gets its turn. Its answer equals that of `generate` alone
    with the same arguments. It does not depend on the other requests; see `Batch`.
    """

    def __init__(
        self, model: Model, *, plan: str | Plan | None = None, max_rows: int = 32, max_prefill_tokens: int = 512,
        max_waiting: int | None = None, memory_budget: int | str | None = "available", pages: int | None = None,
    ):  # fmt: skip
        """plan: with cache=paged, rows share pages of 16 positions: `pages` in all.

        max_rows: that run at once. max_prefill_tokens: of prompts that one step reads. A longer prompt is read in
        parts, so that rows that run need not wait for it; sources and their texts are read whole.

        max_waiting: requests that wait at most; None: any number. memory_budget: as for `generate`, for all requests
        together, and for the steps that are captured.
        """
        check_limits(max_rows, max_prefill_tokens, max_waiting)
        self.model, self.max_prefill_tokens, self.max_waiting = model, max_prefill_tokens, max_waiting
        self.plan, budget = plan_of_running_batch(model, plan, pages), parse_budget(memory_budget, model.device)
        most_captured, captured = captured_rows_within(model, self.plan, max_rows, budget)
        self.memory_budget = budget_of_requests(model, self.plan, budget, captured)
        self.batch = Batch(model, self.plan, max_rows, pages, most_captured)
        self.waiting: list[Job] = []  # by number
        self.running: list[Job] = []
        self.lanes: list[Lane] = []
        self.readings: list[Reading] = []
        self.numbers, self.chooses = itertools.count(), False  # while tokens are being chosen, no row may move

    def submit(
        self, prompt: str | None = None, *, input_ids: Any = None, logprobs: int | None = None,
        on_token: TokenCallback | None = None, on_end: Callable[[Job], None] | None = None, truncate: bool = False,
        sample_id: int | None = None, **options: Unpack[GenerateOptions],
    ) -> Job:  # fmt: skip
        """A request of one prompt (or source), which waits from now on; arguments as for `generate`.

        on_token, on_end: see `Job`. Raises InputError and OptionError as `generate` does, MemoryBudgetError on what
        would not fit alone, and QueueFullError where max_waiting requests wait.
        """
        job = self.make_job(prompt, input_ids, logprobs, truncate, sample_id, options)
        job.on_token, job.on_end = on_token, on_end
        self.enqueue([job])
        return job

    def make_job(
        self, prompt: str | None, input_ids: Any, logprobs: int | None, truncate: bool | None, sample_id: int | None,
        given: Mapping[str, Any],
    ) -> Job:  # fmt: skip
        """A request that is checked, and does not wait yet. It changes nothing here: any thread may call it."""
        model, options = self.model, self.model.options(**given)
        if options.guidance_scale != 1.0:
            raise OptionError("guidance_scale needs a second prediction, which no running batch makes: call generate")
        if options.tokens_ahead:
            raise OptionError("a running batch computes one token of each text a step, and drafts none: call generate")
        check_logprobs(logprobs, model.config.generated_vocab_size)
        ids = None if input_ids is None else [np.asarray(input_ids)]
        sources, prompts, limit_B = model.inputs.fit_call(prompt, ids, None, options, truncate)
        if len(prompts) != 1:
            raise OptionError(f"a request has one prompt, not {len(prompts)}: submit each")
        if sample_id is not None:
            check_sample_ids([sample_id], 1)
        constraint = constraint_of(model, options, prompts, limit_B)
        stopping = make_stopping(model, options, perf_counter())
        copies = None if sample_id is None else [sample_id]
        request = Request.make(prompts, limit_B, options, sources, None, copies, stopping, constraint)
        extent = extent_of(sources, prompts, limit_B)
        needed = footprint(model, self.plan, extent, options, logprobs=logprobs)
        if self.memory_budget is not None:
            check_fits(needed, self.memory_budget, extent)
        job = Job(options, request, list(sources), needed.total, lane_key(options), logprobs)
        if job.rows > self.batch.rows.capacity:
            raise OptionError(f"a request of {job.rows} rows never fits: there are {self.batch.rows.capacity}")
        if not self.batch.rows.can_hold(extent.text_tokens, job.rows):
            raise MemoryBudgetError(f"{job.rows} rows of {extent.text_tokens} tokens never find pages: raise pages")
        return job

    def enqueue(self, jobs: Sequence[Job], others: int = 0) -> None:
        """Queues these requests, all of them or none. others: how many wait elsewhere. Raises QueueFullError."""
        waits, jobs = len(self.waiting) + others, checked_requests("enqueue", jobs)
        if self.max_waiting is not None and waits + len(jobs) > self.max_waiting:
            raise QueueFullError(f"{waits} of at most {self.max_waiting} requests wait: try again later")
        for job in jobs:
            job.number = next(self.numbers)
            self.waiting.append(job)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self.waiting and not self.running

    @property
    def bytes(self) -> int:
        """What the requests that run may take."""
        return sum(job.bytes for job in self.running)

    def step(self) -> None:
        """Lets requests join, reads on in their texts, and then computes one token of each row that runs."""
        with few_blas_threads(self.model.is_small), np.errstate(all="ignore"):
            self._admit_waiting()
            if self.readings:
                self._read_prompts()
            if self.lanes:
                self._compute_tokens()

    def run(self) -> None:
        """Steps until all requests have their answers."""
        while not self.is_idle:
            self.step()

    def fail_all(self, error: MinidecodeError) -> None:
        """What runs ends with this error."""
        for job in self.running:
            job.fail(error)
        self._clear_rows()

    def cancel(self, job: Job) -> None:
        """A request that waits or runs ends without an answer; its rows are free at once.

        An on_token may call this, for any request: the rows are free at the end of the step then.
        """
        checked_requests("cancel", [job])
        if not job.is_over:
            job.end("cancelled")
            if not self.chooses:
                self._clear_rows()

    def preempt(self, job: Job) -> None:
        """Between two steps: a running request gives its rows back and waits again, in front of all later ones.

        What it has chosen is kept: texts, scores, draws and log-probabilities. When it joins again its texts are read
        again, which makes the keys and values that were dropped. Raises OptionError within a step, as in an on_token.
        """
        if self.chooses:
            raise OptionError("a request is preempted between two steps, and on_token is called within one: cancel it")
        checked_requests("preempt", [job])
        if job not in self.running:
            raise OptionError(f"preempt takes a request that runs here, and this one is {job.state}, or elsewhere")
        for lane in self.lanes:  # none is there whose texts are still being read
            if job in lane.jobs:
                job.lane = type(lane).merge_rows([(lane, np.flatnonzero([other is job for other in lane.jobs]))])
                job.lane.forget_moves()
        job.state, job.preempted = "waiting", job.preempted + 1
        self.running.remove(job)
        self.waiting = sorted([*self.waiting, job], key=lambda job: job.number)
        self._clear_rows()

    def _admit_waiting(self) -> None:
        """The first requests that wait get rows, as far as rows and memory go. From then on their texts are read.

        Sources and their texts are read whole. So of these a step admits only as many as max_prefill_tokens allows.
        """
        tokens, batch = 0, self.batch
        while self.waiting:
            job, held = self.waiting[0], self.bytes
            texts, source_length = job.texts_to_read(), sum(map(len, job.sources))
            tokens += sum(map(len, texts)) + len(texts) * source_length
            fits = self.memory_budget is None or not held or held + job.bytes <= self.memory_budget
            if not fits or (job.sources and self.readings and tokens > self.max_prefill_tokens):
                return
            if (rows := batch.rows.add_rows(texts, job.rows, source_length)) is None:
                return
            self.readings += [Reading(job=job, ids=ids, row_X=row_X) for ids, row_X in zip(texts, rows, strict=True)]
            self.running.append(self.waiting.pop(0))
            job.state, batch.most_rows = "running", max(batch.most_rows, batch.rows.number)

    def _read_prompts(self) -> None:
        """Reads on in the texts of all requests that have joined, and lets those run whose texts are read."""
        for reading in self.readings:
            if reading.logits_V is None:
                self.batch.rows.skip_known_positions(reading)
        left = [reading.tokens_left for reading in self.readings]
        shares = left if self.model.has_encoder else shared_out(left, self.max_prefill_tokens)
        for reading, share in zip(self.readings, shares, strict=True):
            reading.last = reading.first + share
        parts = [reading for reading in self.readings if reading.last > reading.first]
        logits_XV = self.batch.read(parts, [source for reading in parts for source in reading.job.sources])
        for reading, logits_V in zip(parts, logits_XV, strict=True):
            if reading.logits_V is None:
                self.batch.tokens_reused += reading.first
                if reading.job.lane is None:  # of its prompt, not of what it has written
                    reading.job.reused_tokens = reading.first
            reading.first, reading.logits_V = reading.last, logits_V
        readings, unread = self.readings, {reading.job for reading in self.readings if reading.tokens_left}
        self.readings = [reading for reading in readings if reading.job in unread]
        for job in dict.fromkeys(reading.job for reading in readings if reading.job not in unread):
            self.lanes.append(self._start_or_extend_lane(job, [reading for reading in readings if reading.job is job]))
        self._clear_rows()

    def _start_or_extend_lane(self, job: Job, readings: list[Reading]) -> Lane:
        """The lane of a request whose texts have been read. A new one has its first tokens, too."""
        logits_1V, is_new = readings[0].logits_V[None], job.lane is None
        lane = start_lane(job, logits_1V, self.model.config.context + 1) if is_new else job.lane
        lane.row_R, job.lane = np.concatenate([reading.row_X for reading in readings]), None
        return self._advance_lane(lane, np.repeat(logits_1V, job.rows, axis=0)) if is_new else lane

    def _advance_lane(self, lane: Lane, logits_RV: np.ndarray) -> Lane:
        """The lane after each of its rows has got its next token: those that go on."""
        self.chooses = True
        try:
            stays_R = lane.advance_rows(self.batch.ops, logits_RV)
        except Exception as error:  # of a caller's function, in a lane of its own
            for job in lane.jobs:
                job.fail(error)
            stays_R = np.arange(0)
        self.chooses = False
        # Where no row stays, all requests of the lane are over, and `_clear_rows` drops it.
        return lane if len(stays_R) in (0, len(lane)) else type(lane).merge_rows([(lane, stays_R)])

    def _compute_tokens(self) -> None:
        """Computes one token of each row."""
        for lane in self.lanes:
            for first, parent_X in lane.moves():
                self.batch.reorder(slice(first, first + len(parent_X)), parent_X)
        token_R, length_R = self._last_tokens()
        while not self.batch.rows.has_room(length_R):  # the newest request gives its pages back
            self.preempt(max(self.running, key=lambda job: job.number))
            token_R, length_R = self._last_tokens()
        if not self.lanes:  # an older request still reads
            return
        self.batch.most_requests = max(self.batch.most_requests, len({job for lane in self.lanes for job in lane.jobs}))
        logits_RV = self.batch.step(token_R, length_R)
        self.lanes = [self._advance_lane(lane, logits_RV[lane.row_R]) for lane in self.lanes]
        self._clear_rows()

    def _last_tokens(self) -> tuple[np.ndarray, np.ndarray]:
        """(token_R, length_R): what the next step reads of each row, and how long its text is with it."""
        token_R, length_R = (np.zeros(sum(map(len, self.lanes)), np.int64) for _ in range(2))
        for lane in self.lanes:
            token_R[lane.row_R], length_R[lane.row_R] = lane.last_tokens()
        return token_R, length_R

    def _clear_rows(self) -> None:
        """Takes out the rows of what is over or waits again, joins lanes of the same kind, and hands over answers.

        Rows that run come first, in the order that they have; behind them are those of texts that are being read.
        """
        lanes: dict[Any, list[tuple[Lane, np.ndarray]]] = {}
        for lane in self.lanes:
            stays_R = np.array([r for r, job in enumerate(lane.jobs) if job.runs], np.int64)
            if len(stays_R):
                key = lane.jobs[stays_R[0]].lane_key
                lanes.setdefault(id(lane) if key is None else key, []).append((lane, stays_R))
        self.lanes = [
            lane if not others and len(stays_R) == len(lane) else type(lane).merge_rows([(lane, stays_R), *others])
            for (lane, stays_R), *others in lanes.values()
        ]
        self.readings = [reading for reading in self.readings if reading.job.runs]
        of_lanes_R = np.sort(np.concatenate([np.arange(0), *(lane.row_R for lane in self.lanes)]))
        stays_R = np.concatenate([of_lanes_R, *(reading.row_X for reading in self.readings)])
        becomes_R = np.empty(self.batch.rows.number, np.int64)
        becomes_R[stays_R] = np.arange(len(stays_R))
        self.batch.keep_only(stays_R)
        for lane in self.lanes:
            lane.row_R = becomes_R[lane.row_R]
        for reading in self.readings:
            reading.row_X = becomes_R[reading.row_X]
        over = [job for job in (*self.running, *self.waiting) if job.is_over]
        self.running = [job for job in self.running if job.runs]
        self.waiting = [job for job in self.waiting if not job.is_over]
        for job in over:
            if job.state == "done":
                try:
                    self._answer_job(job)
                except Exception as error:  # the other requests still get their answers
                    job.fail(error)
        with contextlib.ExitStack() as ends:  # calls each, though another one raises
            for job in over[::-1]:
                if job.on_end is not None:
                    ends.callback(job.on_end, job)

    def _answer_job(self, job: Job) -> None:
        log_probs = None
        if job.logprobs is not None and job.options.num_beams > 1:  # of the texts that were found, in the end
            ids = [job.texts[x][0] for x in range(len(job.texts))]
            goes_on = job.options.remove_invalid_values
            log_probs = score_new_tokens(
                self.model, job.sources, job.request.prompts, ids, self.plan, job.logprobs, goes_on, None
            )
        job.make_output(self.model.tokenizer, str(self.plan), self.model.dtype, log_probs)


def one_by_one(model: Model, requests: Iterable[dict[str, Any]]) -> list[Output]:
    """The naive loop: each request alone, one after the other. requests: the arguments of `Scheduler.submit`."""
    outputs = []
    for given in map(dict, requests):
        prompt, *alone = (given.pop(name, None) for name in ("prompt", "input_ids", "sample_id"))
        ids, sample_ids = (None if each is None else [each] for each in alone)
        outputs.append(model.generate(prompt, input_ids=ids, sample_ids=sample_ids, **given))
    return outputs
