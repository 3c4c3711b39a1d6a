"""Who runs when: requests wait, join the running batch between two steps, and leave it when they are done.

    scheduler = Scheduler(md.load("tiny-gpt2"))
    job = scheduler.submit("Fellow citizens,", num_beams=4, max_new_tokens=40)
    while not job.is_over:
        scheduler.step()
    print(job.output.texts[0])

`one_by_one` is the naive loop that this replaces: each request waits until all before it have their answers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..device.blas_threads import few_blas_threads
from ..errors import MemoryBudgetError, MinidecodeError, OptionError, QueueFullError
from ..methods.generation import constraint_of, stopping_of
from ..methods.scoring import log_probs_of
from ..options.typed_dict import GenerateOptions
from ..plan import Plan
from ..runtime.draws import check_sample_ids
from ..runtime.footprint import check_fits, footprint, read_budget
from ..runtime.inputs import extent_of
from ..runtime.output import Output, check_logprobs
from ..search.result import Request
from .batch import Batch, settled_plan
from .jobs import Job, TokenCallback
from .lanes import Lane, lane_key, start_lane

if TYPE_CHECKING:
    from ..model import Model


class Scheduler:
    """Requests of one model, in the order of their arrival, as many at once as rows and memory allow.

    A request joins when there are rows for all of its beams (or texts) and memory for what `footprint` says that it may
    take. None overtakes one that came before it, so each gets its turn. Its answer equals that of `generate` alone
    with the same arguments. It does not depend on the other requests; see `Batch`.
    """

    def __init__(
        self, model: Model, *, plan: str | Plan | None = None, max_rows: int = 32, max_prefill_tokens: int = 2048,
        max_waiting: int | None = None, memory_budget: int | str | None = "available", pages: int | None = None,
    ):  # fmt: skip
        """plan: with cache=paged, rows share pages of 16 positions: `pages` in all.

        max_rows: that run at once. max_prefill_tokens: of prompts that one step reads, where they are several.

        max_waiting: requests that wait at most; None: any number. memory_budget: as for `generate`, for all requests
        together.
        """
        for name, number in (("max_rows", max_rows), ("max_prefill_tokens", max_prefill_tokens)):
            if number < 1:
                raise OptionError(f"{name} must be an integer from 1 up, not {number!r}")
        config = model.config
        self.model, self.max_prefill_tokens, self.max_waiting = model, max_prefill_tokens, max_waiting
        self.plan, self.memory_budget = settled_plan(model, plan), read_budget(memory_budget, model.device)
        source_positions = config.source_context if model.has_encoder else 0
        self.batch = Batch(model, self.plan, max_rows, config.context, source_positions, pages)
        self.waiting: list[Job] = []  # by number
        self.running: list[Job] = []
        self.lanes: list[Lane] = []
        self.numbers = itertools.count()

    def submit(
        self, prompt: str | None = None, *, input_ids: Any = None, logprobs: int | None = None,
        on_token: TokenCallback | None = None, on_end: Callable[[Job], None] | None = None, truncate: bool = False,
        sample_id: int | None = None, **options: Unpack[GenerateOptions],
    ) -> Job:  # fmt: skip
        """A request of one prompt (or source), which waits from now on; arguments as for `generate`.

        on_token, on_end: see `Job`. Raises InputError and OptionError as `generate` does, MemoryBudgetError on what
        would not fit alone, and QueueFullError where max_waiting requests wait.
        """
        job = self.job(prompt, input_ids, logprobs, truncate, sample_id, options)
        job.on_token, job.on_end = on_token, on_end
        self.enqueue([job])
        return job

    def job(
        self, prompt: str | None, input_ids: Any, logprobs: int | None, truncate: bool | None, sample_id: int | None,
        given: Mapping[str, Any],
    ) -> Job:  # fmt: skip
        """A request that is checked, and does not wait yet. It changes nothing here: any thread may call it."""
        model, options = self.model, self.model.options(**given)
        if options.guidance_scale != 1.0:
            raise OptionError("guidance_scale needs a second prediction, which no running batch makes: call generate")
        if options.tokens_ahead:
            raise OptionError("a running batch computes one token of each text a step, and drafts none: call generate")
        check_logprobs(logprobs, model.config.head_size)
        ids = None if input_ids is None else [np.asarray(input_ids)]
        sources, prompts, limit_B = model.inputs.fitted(prompt, ids, None, options, truncate)
        if len(prompts) != 1:
            raise OptionError(f"a request has one prompt, not {len(prompts)}: submit each")
        if sample_id is not None:
            check_sample_ids([sample_id], 1)
        constraint = constraint_of(model, options, prompts, limit_B)
        stopping = stopping_of(model, options, perf_counter())
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

    def enqueue(self, jobs: Sequence[Job]) -> None:
        """These requests wait from now on, all of them or none. Raises QueueFullError."""
        if self.max_waiting is not None and len(self.waiting) + len(jobs) > self.max_waiting:
            raise QueueFullError(
                f"{len(self.waiting)} requests wait, and at most {self.max_waiting} may: try again later"
            )
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
        """Lets requests join, and then computes one token of each row that runs."""
        with few_blas_threads(self.model.is_small), np.errstate(all="ignore"):
            self._join(self._admitted())
            if self.lanes:
                self._compute()

    def run(self) -> None:
        """Steps until all requests have their answers."""
        while not self.is_idle:
            self.step()

    def fail_all(self, error: MinidecodeError) -> None:
        """What runs ends with this error."""
        for job in self.running:
            job.fail(error)
        self._clear()

    def cancel(self, job: Job) -> None:
        """A request that waits or runs ends without an answer; its rows are free at once."""
        if not job.is_over:
            job.end("cancelled")
            self._clear()

    def preempt(self, job: Job) -> None:
        """A running request gives its rows back and waits again, in front of all that came after it.

        What it has chosen is kept: texts, scores, draws and log-probabilities. When it joins again its texts are read
        again, which makes the keys and values that were dropped.
        """
        if not job.runs:
            raise OptionError(f"a request that is {job.state} cannot be preempted: only one that runs can")
        lane = next(lane for lane in self.lanes if job in lane.jobs)
        mine_R = np.flatnonzero([other is job for other in lane.jobs])
        job.lane = type(lane).merged([(lane, mine_R)])
        job.lane.stop_moving()
        job.state, job.preempted = "waiting", job.preempted + 1
        self.running.remove(job)
        self.waiting.append(job)
        self.waiting.sort(key=lambda job: job.number)
        self._clear()

    def _admitted(self) -> list[Job]:
        """The requests that join now: the first ones that wait, as far as rows, memory and tokens go."""
        rows, held, tokens = 0, self.bytes, 0
        lengths: list[int] = []
        admitted: list[Job] = []
        for job in self.waiting:
            texts = job.read()
            rows, held = rows + job.rows, held + job.bytes
            tokens += sum(map(len, texts)) + len(texts) * sum(map(len, job.sources))
            lengths += map(len, texts)
            fits = self.memory_budget is None or held <= self.memory_budget or held == job.bytes
            has_rows = self.batch.rows.can_join(lengths, rows)
            if not has_rows or not fits or (admitted and tokens > self.max_prefill_tokens):
                break
            admitted.append(job)
        del self.waiting[: len(admitted)]
        return admitted

    def _join(self, jobs: list[Job]) -> None:
        """Reads what these requests have, in one forward pass, and gives them rows."""
        if not jobs:
            return
        texts: list[np.ndarray] = []  # that are read
        which: list[list[int]] = []  # by job, the text of each of its rows
        for job in jobs:
            first = len(texts)
            which.append([first] * job.rows if job.lane is None else list(range(first, first + job.rows)))
            texts += job.read()
        sources = [source for job, x in zip(jobs, which, strict=True) for source in job.sources * len(set(x))]
        for job in jobs:  # before they are read: if reading fails, `fail_all` of the worker ends these requests too
            job.state = "running"
            self.running.append(job)
        logits_BV, engine = self.batch.read(texts, sources)
        for job, x in zip(jobs, which, strict=True):
            lane = job.lane
            lengths = [len(texts[b]) for b in x]
            rows = self.batch.join(engine, x, lengths, [len(sources[b]) for b in x] if sources else [])
            if lane is None:
                lane = start_lane(job, logits_BV[x[0]][None], self.batch.ops, self.model.config.context + 1)
                lane.row_R = np.arange(rows.start, rows.stop)
                logits_RV = np.repeat(logits_BV[x[0]][None], job.rows, axis=0)
                lane = self._taken(lane, logits_RV)
            else:
                lane.row_R, job.lane = np.arange(rows.start, rows.stop), None
            self.lanes.append(lane)
        self._clear()

    def _taken(self, lane: Lane, logits_RV: np.ndarray) -> Lane:
        """The lane after each of its rows has got its next token: those that go on."""
        try:
            stays_R = lane.take(self.batch.ops, logits_RV)
        except Exception as error:  # of a function of the caller's, in a lane of its own
            for job in lane.jobs:
                job.fail(error)
            stays_R = np.arange(0)
        return lane if len(stays_R) == len(lane) else type(lane).merged([(lane, stays_R)])

    def _compute(self) -> None:
        """One token of each row."""
        for lane in self.lanes:
            for first, parent_X in lane.moves():
                self.batch.reorder(slice(first, first + len(parent_X)), parent_X)
        token_R, length_R = self._last_tokens()
        while not self.batch.rows.has_room(length_R):  # the newest request gives its pages back
            self.preempt(self.running[-1])
            token_R, length_R = self._last_tokens()
        self.batch.most_requests = max(self.batch.most_requests, len(self.running))
        logits_RV = self.batch.step(token_R, length_R)
        self.lanes = [self._taken(lane, logits_RV[lane.row_R]) for lane in self.lanes]
        self._clear()

    def _last_tokens(self) -> tuple[np.ndarray, np.ndarray]:
        """(token_R, length_R): what the next step reads of each row, and how long its text is with it."""
        token_R, length_R = (np.zeros(self.batch.rows.number, np.int64) for _ in range(2))
        for lane in self.lanes:
            token_R[lane.row_R], length_R[lane.row_R] = lane.last_tokens()
        return token_R, length_R

    def _clear(self) -> None:
        """Takes out the rows of what is over or waits again, joins lanes of the same kind, and hands over answers."""
        lanes: dict[Any, list[tuple[Lane, np.ndarray]]] = {}
        for lane in self.lanes:
            stays_R = np.array([r for r, job in enumerate(lane.jobs) if job.runs], np.int64)
            if len(stays_R):
                key = lane.jobs[stays_R[0]].lane_key
                lanes.setdefault(id(lane) if key is None else key, []).append((lane, stays_R))
        self.lanes = [
            parts[0][0] if len(parts) == 1 and len(parts[0][1]) == len(parts[0][0]) else type(parts[0][0]).merged(parts)
            for parts in lanes.values()
        ]
        stays_R = np.sort(np.concatenate([np.arange(0), *(lane.row_R for lane in self.lanes)]))
        self.batch.keep_only(stays_R)
        for lane in self.lanes:
            lane.row_R = np.searchsorted(stays_R, lane.row_R)
        over = [job for job in (*self.running, *self.waiting) if job.is_over]
        self.running = [job for job in self.running if job.runs]
        self.waiting = [job for job in self.waiting if not job.is_over]
        for job in over:
            if job.state == "done":
                try:
                    self._answer(job)
                except Exception as error:  # the other requests still get their answers
                    job.fail(error)
            if job.on_end is not None:
                job.on_end(job)

    def _answer(self, job: Job) -> None:
        log_probs = None
        if job.logprobs is not None and job.options.num_beams > 1:  # of the texts that were found, in the end
            ids = [job.texts[x][0] for x in range(len(job.texts))]
            goes_on = job.options.remove_invalid_values
            log_probs = log_probs_of(
                self.model, job.sources, job.request.prompts, ids, self.plan, job.logprobs, goes_on, None
            )
        job.make_output(self.model.tokenizer, str(self.plan), self.model.dtype, log_probs)


def one_by_one(model: Model, requests: Iterable[dict[str, Any]]) -> list[Output]:
    """The naive loop: each request alone, one after the other. requests: the arguments of `Scheduler.submit`."""
    outputs = []
    for request in requests:
        given = dict(request)
        prompt, ids = given.pop("prompt", None), given.pop("input_ids", None)
        sample = given.pop("sample_id", None)
        sample_ids = None if sample is None else [sample]
        ids = None if ids is None else [ids]
        outputs.append(model.generate(prompt, input_ids=ids, sample_ids=sample_ids, **given))
    return outputs
