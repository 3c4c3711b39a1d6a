"""Many lines in batches: stage after stage in one thread, or the stages side by side (FastSeq, section 4.3).

A batch passes three stages: lines are read and tokenized; the model generates; ids become text. The naive way runs them
one after the other, so that the model waits while others work:

    read 1 | generate 1 | finish 1 | read 2 | generate 2 | finish 2 | ...

No stage needs a later batch to have ended, so a thread can read ahead and others can finish behind, while the calling
thread does nothing but generate:

    prefetch      read 1 | read 2     | read 3     | ...
    caller               | generate 1 | generate 2 | generate 3 | ...
    post-process                      | finish 1   | finish 2   | ...

`one_after_the_other` and `in_threads` are these two; all else is the same for both, so their results are equal byte
for byte. What it gives depends on who computes. On a GPU the processor is free meanwhile, and the paper measures 1.5x.
Where generation itself keeps all cores busy, the other stages only take turns with it, and the gain is near 1.0x.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import numbers
import re
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Unpack

from ..errors import InputError, LineError, MemoryBudgetError, MinidecodeError, OptionError, PipelineError, counted
from ..methods.loaded import refuse_other_than_model
from ..options.typed_dict import GenerateOptions
from ..plan import Plan
from ..runtime.footprint import parse_budget
from ..runtime.output import check_logprobs
from ..runtime.receipt import CostOf, Receipt
from .records import Copies, Line, merge_options, read_record, tokenize_line
from .worker_threads import NOTHING_YET, Worker, apply_in_threads, iterate_ahead

if TYPE_CHECKING:
    from ..model import Model
    from ..runtime.arena import Arena

OVERLAPS = ("both", "prefetch", "post-process", "none")
ON_ERROR = ("stop", "skip", "record")


# ---- what goes through, and what is known of it afterwards -----------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """A stretch of time in which a thread was busy with a stage; seconds since the run began."""

    thread: str  # "caller", or the name of a worker
    stage: str
    batch: int  # 0 where a whole window is read and tokenized
    first_line: int
    lines: int
    begin: float
    end: float


@dataclass
class RunReceipt:
    """What a run over many lines did."""

    overlap: str  # one of OVERLAPS
    lines: int = 0  # handed to the caller
    reached: int = 0  # lines of the input that are done or told of
    failed: int = 0  # lines with an error, recorded or left out
    failures: list[LineError] = field(default_factory=list)  # the first of these, by their lines
    batches: int = 0
    splits: int = 0  # batches that were cut because they did not fit the memory
    new_tokens: int = 0
    busy: Counter[str] = field(default_factory=Counter)  # seconds by stage: read, tokenize, generate, post-process;
    # write: what the caller did with the results, while no batch was generated
    seconds: float = 0.0  # by the clock
    spans: list[Span] = field(default_factory=list)  # if traced

    @property
    def overlapped(self) -> float:
        """Busy seconds of all stages / seconds by the clock: 1.0 is one after the other without a pause."""
        return sum(self.busy.values()) / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        stages = ", ".join(f"{stage} {s:.3f} s" for stage, s in self.busy.items())
        return (
            f"{counted(self.lines, 'line')} in {counted(self.batches, 'batch')} ({self.splits} cut to fit the memory), "
            f"{self.failed} with an error; overlap {self.overlap}: busy {stages}; {self.seconds:.3f} s by the clock, "
            f"so {self.overlapped:.2f} stages at a time"
        )


# ---- the stages ------------------------------------------------------------------------------------------------------


class Stages:
    """The stages of lines, however they are run: `batches` reads and tokenizes, then `compute`, then `finish`.

    A subclass does the work on lines: `parse_and_tokenize` on one, `run_model` on several, and `finish_line` on one.
    """

    MODEL_STAGE = ""  # what the model's stage is called

    def __init__(
        self, model: Model, lines: Iterable[Any], receipt: RunReceipt, *, jsonl: bool, source: str, batch_size: int,
        sort_window: int, on_error: str = "stop", traced: bool = False, render: Callable[[Line], Any] | None = None,
        done: Collection[int] = (), keeps_order: bool = True, first_line: int = 1,
    ):  # fmt: skip
        """done: the numbers of lines that are read, and not done again. first_line: the number of the first."""
        self.model, self.receipt, self.jsonl, self.source = model, receipt, jsonl, source
        self.lines = lines_of_file(lines) if isinstance(lines, io.IOBase) else lines
        self.batch_size, self.sort_window, self.on_error, self.traced = batch_size, sort_window, on_error, traced
        self.render, self.lines_read, self.done, self.keeps_order = render, 0, done, keeps_order
        self.first_line = first_line
        self.is_stopped = False  # a line has failed, and no batch behind it is needed
        receipt.reached = len(done)
        self.lock, self.began = threading.Lock(), time.perf_counter()

    @contextlib.contextmanager
    def busy(self, stage: str, lines: list[Line]) -> Iterator[None]:
        """Counts the time within as this stage's. The lines may come while it runs."""
        begin = time.perf_counter() - self.began
        try:
            yield
        finally:
            end, thread = time.perf_counter() - self.began, threading.current_thread()
            name = thread.name if isinstance(thread, Worker) else "caller"
            with self.lock:
                self.receipt.busy[stage] += end - begin
                if self.traced and lines:
                    first = lines[0]
                    self.receipt.spans.append(Span(name, stage, first.batch, first.number, len(lines), begin, end))

    def batches(self) -> Iterator[list[Line]]:
        """Lines in batches of one kind and about one length: those of a window are sorted, the longest first.

        Lines that cannot be done come in a batch of their own, to be told when it is their turn.
        """
        numbered = enumerate(self.lines, self.first_line)
        going, batches_made = True, 0
        while going:
            window: list[Line] = []
            try:
                with self.busy("read", window):
                    for number, given in itertools.islice(numbered, self.sort_window):
                        window.append(Line(number, given))
                cut_short = None
            except Exception as error:  # reading itself fails: what was read before is still done
                cut_short = error
            going = len(window) == self.sort_window
            self.lines_read += len(window)
            with self.busy("tokenize", window):
                for line in window:
                    with self._note_errors_in(line):
                        self.parse_and_tokenize(line)
                    if line.error and self.on_error == "stop":  # no one will ask for what comes behind it
                        window, going = window[: line.number - window[0].number + 1], False
                        break
            for batch in self._split_into_batches(window):
                batches_made += 1
                for line in batch:
                    line.batch = batches_made
                if any(line.number not in self.done for line in batch):
                    yield batch  # as a whole: what is computed of a line may differ in its last bits in another batch
            if cut_short is not None:
                raise cut_short

    def _split_into_batches(self, window: list[Line]) -> list[list[Line]]:
        """The lines of a window in batches, those that cannot be done in the last."""
        kinds = defaultdict(list)
        for line in window:
            if not line.error:
                kinds[line.kind].append(line)
        batches = []
        for lines in kinds.values():
            lines.sort(key=lambda line: -len(line.ids))
            batches += [lines[i : i + self.batch_size] for i in range(0, len(lines), self.batch_size)]
        failed = [line for line in window if line.error]
        return [*batches, failed] if failed else batches

    def compute(self, batch: list[Line]) -> list[Line]:
        """The model's part. If a batch fails, each of its lines is tried alone, so that the error gets its line."""
        if able := [line for line in batch if not line.error]:
            self._run_in_parts(able)
        if self.on_error == "stop" and not self.keeps_order:  # in order, the lines before the failed one come first
            self.is_stopped = any(line.error for line in batch)
        return batch

    def _run_in_parts(self, part: list[Line]) -> None:
        """The part as a whole, or if that does not fit the memory, halves of it, and halves of these, until each fits.

        Nothing has been computed of what does not fit. A line alone that does not is refused.
        """
        try:
            self._run_model_timed(part)
        except Exception as error:
            if isinstance(error, MemoryBudgetError) and len(part) > 1:
                self.receipt.splits += 1
                middle = len(part) // 2
                for half in (part[:middle], part[middle:]):
                    self._run_in_parts(half)
                return
            for line in part:
                with self._note_errors_in(line):
                    self._run_model_timed([line])
            is_first = self.receipt.batches == 0 == len(self.done)
            has_own = any(line.options or line.prefix is not None for line in part)
            if isinstance(error, OptionError) and is_first and not has_own and all(x.error for x in part):
                raise  # no line has ever been done under these options: they are to blame

    def _run_model_timed(self, part: list[Line]) -> None:
        with self.busy(self.MODEL_STAGE, part):
            self.run_model(part)
        self.receipt.batches += 1

    def finish(self, batch: list[Line]) -> list[Line]:
        """What came of it becomes what the caller wants."""
        batch = [line for line in batch if line.number not in self.done]
        with self.busy("post-process", batch):
            for line in batch:
                if not line.error:
                    with self._note_errors_in(line):
                        self.finish_line(line)
                        line.rendered = self.render and self.render(line)
                if line.error and self.on_error == "record":
                    line.rendered = self.render and self.render(line)
        return batch

    def finish_line(self, line: Line) -> None:
        """Does the last work on a line, besides the caller's `render`."""

    def name_of_line(self, number: int) -> str:
        return f"{self.source} {number}"

    @contextlib.contextmanager
    def _note_errors_in(self, line: Line) -> Iterator[None]:
        """What fails within is this line's error."""
        try:
            yield
        except Exception as error:
            text = re.sub(
                r"\b(prompt|source|text|target) 1 of 1\b", r"the \1", str(error), count=1
            )  # it was looked at alone
            if not isinstance(error, MinidecodeError):
                text = f"{type(error).__name__}: {text}"
            where = self.name_of_line(line.number)
            line.error = LineError(text if text.startswith(where) else f"{where}: {text}", line.number)
            line.error.__cause__ = error


class Generating(Stages):
    """Prompts become ids, ids become more of them, and these become texts."""

    MODEL_STAGE = "generate"

    def __init__(
        self, model: Model, *args: Any, how: dict[str, Any], options: dict[str, Any],
        on_batch: Callable[[Receipt], None] | None = None, chat: bool = False, sample_ids: Sequence[int] | None = None,
        **kwargs: Any,
    ):  # fmt: skip
        """how: what `Model.generate` takes beside the lines and the options. The others are those of `Stages`."""
        super().__init__(model, *args, **kwargs)
        self.chat, self.sample_ids = chat, sample_ids
        self.how, self.options, self.resolved = how, options, model.options(**merge_options(model, options, {}))
        self.keeps_stops = options.get("keep_stop_strings", self.resolved.keep_stop_strings)
        self.on_batch = on_batch
        self.copies = Copies(self.resolved.seed)
        self.budget_read: tuple[float, int | None] | None = None  # when, and what it was

    def parse_and_tokenize(self, line: Line) -> None:
        """Parses and tokenizes a line, and checks that the model can take it."""
        where = self.name_of_line(line.number)
        line.record = read_record(line.given, self.jsonl, where, may_skip=self.on_error == "stop")
        if self.sample_ids is not None:
            if line.number - self.first_line >= len(self.sample_ids):
                raise InputError(f"sample_ids are {len(self.sample_ids)}, and there are more lines: give each its own")
            line.copy = self.sample_ids[line.number - self.first_line]
        elif self.resolved.do_sample or "latent_seed" in self.how:
            line.copy = self.copies.count_earlier_and_add(line.record)
        tokenize_line(self.model, line, where, self.options, self.resolved, self.how["truncate"], self.chat)

    def run_model(self, part: list[Line]) -> None:
        """The model's generation for these lines, in one batch."""
        ids, copies = [line.ids for line in part], [line.copy for line in part]
        how = (
            self.how
            | {"memory_budget": self._available_budget()}
            | merge_options(self.model, self.options, part[0].options)
        )
        prefixes = None if part[0].prefix is None else [line.prefix for line in part]  # all are of one kind
        out = self.model.generate(input_ids=ids, sample_ids=copies, prefix_tokens=prefixes, **how)
        each, finish_reasons = self.resolved.num_return_sequences, out.finish_reasons
        for b, line in enumerate(part):
            mine = slice(b * each, (b + 1) * each)
            line.token_ids, line.scores = out.token_ids[mine], out.scores[mine].tolist()
            line.finish_reasons = finish_reasons[mine]
            line.log_probs = out.log_probs and out.log_probs[mine]
            line.drafts = out.drafts and out.drafts[mine]
        self.receipt.new_tokens += out.receipt.new_tokens
        if self.on_batch:
            self.on_batch(out.receipt)

    def finish_line(self, line: Line) -> None:
        """Ids become text."""
        stops = line.options.get("stop_strings", self.resolved.stop_strings)
        before, tokenizer = () if self.model.is_encoder_decoder else line.ids, self.model.tokenizer
        line.texts = [tokenizer.new_text(before, ids, stops).cut(stops, self.keeps_stops) for ids in line.token_ids]

    def _available_budget(self) -> int | None:
        """What a batch may take now; the machine is asked once a second at most.

        Its answer lies in a file, and reading one lets other threads run, and then waits for them: a millisecond
        here, a third of the stand-in's time in benchmarks/pipeline.py.
        """
        now = time.perf_counter()
        if self.budget_read is None or now - self.budget_read[0] > 1.0:
            self.budget_read = now, parse_budget(self.how["memory_budget"], self.model.device)
        return self.budget_read[1]


# ---- the two ways to run them ----------------------------------------------------------------------------------------


def one_after_the_other(stages: Stages) -> Iterator[list[Line]]:
    """Naive: a batch is read, generated and finished before the next one is looked at."""
    for batch in stages.batches():
        yield stages.finish(stages.compute(batch))
        if stages.is_stopped:
            return


def in_threads(stages: Stages, prefetch: bool, threads: int) -> Iterator[list[Line]]:
    """The calling thread generates; one reads ahead (if prefetch), `threads` finish behind. Batches in any order."""
    with contextlib.ExitStack() as ends:
        batches = stages.batches()
        if prefetch:
            call_off = getattr(stages.lines, "call_off", None)
            batches = ends.enter_context(contextlib.closing(iterate_ahead(batches, AHEAD, call_off)))
        computed = _compute_batches(stages, batches)
        if threads:
            finished = ends.enter_context(contextlib.closing(apply_in_threads(stages.finish, computed, threads)))
        else:
            finished = (stages.finish(batch) for batch in computed if batch is not NOTHING_YET)
        yield from finished


def _compute_batches(stages: Stages, batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        yield batch if batch is NOTHING_YET else stages.compute(batch)
        if stages.is_stopped:
            return


def order_by_line_number(
    batches: Iterable[list[Line]], done: Collection[int] = (), first_line: int = 1
) -> Iterator[list[Line]]:
    """The lines as they stood in the input, as soon as none before them is missing; those of `done` do not come.

    Raises PipelineError if a line comes twice.
    """
    waiting: dict[int, Line] = {}
    numbers = (n for n in itertools.count(first_line) if n not in done)
    turn = next(numbers)
    for batch in batches:
        for line in batch:
            if line.number < turn or line.number in waiting:
                raise PipelineError(f"line {line.number} came out of the pipeline twice")
            waiting[line.number] = line
        ready = []
        while turn in waiting:
            ready.append(waiting.pop(turn))
            turn = next(numbers)
        if ready:
            yield ready
    if waiting:
        raise PipelineError(f"line {turn} was lost in the pipeline")


def lines_as_batches_end(batches: Iterable[list[Line]]) -> Iterator[list[Line]]:
    """The lines of each batch, those that failed last. Raises PipelineError if a line comes twice."""
    seen: set[int] = set()
    for batch in batches:
        for line in batch:
            if line.number in seen:
                raise PipelineError(f"line {line.number} came out of the pipeline twice")
            seen.add(line.number)
        yield sorted(batch, key=lambda line: (line.error is not None, line.number))


AHEAD = 2  # batches that are ready for the model at most, beside the one that is being made


# ---- the whole -------------------------------------------------------------------------------------------------------

FAILURES_KEPT = 10
CUT_CHAT = "truncate would cut off the beginning of a conversation, with its roles: shorten the prompt instead of chat"


class LineRun:
    """The lines of a run, one by one in the order of the input; `receipt` says what was done so far.

    Use it in a `with`, or to its end, or call `close`, or let go of it: then no thread is left.
    """

    def __init__(self, stages: Stages, prefetch: bool, threads: int):
        self.receipt = stages.receipt
        parallel = prefetch or threads
        batches = in_threads(stages, prefetch, threads) if parallel else one_after_the_other(stages)
        self._lines = yield_finished_lines(stages, batches)  # it does not know of this object, so it ends with it

    def __iter__(self) -> Iterator[Line]:
        return self

    def __next__(self) -> Line:
        return next(self._lines)

    def close(self) -> None:
        """Ends the run here. The threads are joined; what they were at is dropped."""
        self._lines.close()

    def __enter__(self) -> LineRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def yield_finished_lines(stages: Stages, batches: Iterator[list[Line]]) -> Iterator[Line]:
    """The lines of finished batches, as `on_error` says; then it is made sure that none was lost.

    In their order, or else as they end: then the error that stops a run comes behind all that was under way.
    """
    receipt, stopped_by = stages.receipt, None
    stages.began = time.perf_counter()
    try:
        with contextlib.closing(batches):
            ordered = (
                order_by_line_number(batches, stages.done, stages.first_line)
                if stages.keeps_order
                else lines_as_batches_end(batches)
            )
            for group in ordered:
                try:
                    with stages.busy("write", group):
                        yield from yield_visible_lines(group, receipt, stages.on_error)
                except LineError as error:
                    if stages.keeps_order:
                        raise
                    stopped_by = stopped_by or error
        if stopped_by is not None:
            raise stopped_by
        before = max(stages.done, default=0) - stages.first_line + 1
        if stages.lines_read < before:
            raise InputError(f"{counted(before, 'line')} done before, and there are {stages.lines_read}: give them all")
        if receipt.reached != stages.lines_read:
            raise PipelineError(f"line {stages.first_line + receipt.reached} was lost in the pipeline")
    finally:
        receipt.seconds = time.perf_counter() - stages.began


def lines_of_file(file: io.IOBase) -> Iterator[str | bytes]:
    """The lines of an open file, of text or of bytes, without the ends of lines, which belong to no text."""
    for line in file:
        for end in ("\n", "\r") if isinstance(line, str) else (b"\n", b"\r"):
            line = line.removesuffix(end)
        yield line


def yield_visible_lines(lines: list[Line], receipt: RunReceipt, on_error: str) -> Iterator[Line]:
    """The lines that the caller gets to see. Raises the error of one that stops the run."""
    for line in lines:
        if line.error:
            receipt.failed += 1
            receipt.failures = sorted([*receipt.failures, line.error], key=lambda e: e.number)[:FAILURES_KEPT]
            if on_error == "stop":
                raise line.error
        if not line.error or on_error == "record":
            yield line
            receipt.lines += 1
        receipt.reached += 1


def generate_lines(
    model: Model, lines: Iterable[str | bytes | dict[str, Any]], *, batch_size: int = 8, sort_window: int | None = None,
    overlap: str = "both", threads: int = 2, on_error: str = "stop", jsonl: bool = False, source: str = "line",
    plan: str | Plan | None = None, arena: Arena | None = None, truncate: bool = False,
    memory_budget: int | str | None = "available", costs: bool | CostOf = False, done: int | Collection[int] = 0,
    logprobs: int | None = None, chat: bool = False, latent: Any = None, latent_seed: int | None = None,
    draft: Model | None = None, render: Callable[[Line], Any] | None = None,
    on_batch: Callable[[Receipt], None] | None = None, trace: bool = False, keeps_order: bool = True,
    first_line: int = 1, sample_ids: Sequence[int] | None = None,
    **options: Unpack[GenerateOptions],
) -> LineRun:  # fmt: skip
    """Generates for many lines, in batches; yields a `Line` for each, in the order of the input.

        for line in md.generate_lines(model, open("prompts.txt"), batch_size=16, num_beams=4):
            print(line.texts[0])

    options: as in `generate`; `help(minidecode.GenerateOptions)` lists them all.
    plan, truncate, costs, logprobs, latent, latent_seed, draft: as in `generate`; latent is one
        for all lines. A streamer and a search's trace are for single calls: batches follow no
        order of the lines.

    model: what `load` returns.
    chat: each prompt is what a user says, and the model answers by its chat template; see
        `Model.chat`.
    lines: texts, UTF-8 bytes, or objects with a "prompt", from any iterable; of an open file,
        its lines without their ends. Another thread reads it, ahead by two batches and a window.
        If reading may wait for ever, give it a method `call_off` that ends the wait.
    jsonl: each line is JSON. An object may have a "max_new_tokens", a "seed", a "stop" and a
        "prefix" (the text that its new text begins with) for itself alone. Lines are batched
        with those of equal options; this changes no text.
    batch_size: lines generated together; it changes no text, samples included.
    sort_window: lines among which those of about one length are put together. None: eight
        batches; no more than batch_size keeps the order. It changes no text either.
    overlap: "both"; "prefetch" (read and tokenize ahead); "post-process" (make text in other
        threads; results then wait for the next batch, or the end); or "none" (all in the
        calling thread, one batch after the other). It changes no byte of the results
        (FastSeq, section 4.3).
    threads: how many of them make text.
    on_error: what a line that cannot be done does when its turn comes: "stop" raises its
        LineError, "skip" leaves it out and counts it, "record" yields it with its `error`.
    source: what a line is called in errors, before its number.
    memory_budget, arena: as in `generate`. A batch that does not fit is cut; a line that does
        not fit alone is an error. One arena serves all batches; without it, a plan with
        arena=planned makes one for each.
    done: this many lines from the first, or the lines of these numbers, were done by an earlier
        run: they are read, and do not come. The others give what they would have given in one
        run, to the last bit: batches are those of all lines.
    render: called with each line by the threads that make text; `line.rendered` is what it
        returns.
    on_batch: called with the receipt of each batch.
    trace: keep `receipt.spans`, of which lines/timeline.py makes pictures.
    keeps_order: False yields each line as soon as it is done; `line.number` tells which it is. An
        error or an interrupt then comes behind the lines that were done before it.
    first_line, sample_ids: for a part of a longer input: the number of its first line, and for
        each line how many lines of the whole had its prompt before it. None: they are counted
        among these lines. `cut_shards` makes such parts.

    Raises OptionError at once on options; while it is read LineError, and whatever reading
    `lines` raises.
    """
    refuse_other_than_model("generate_lines", model)
    window = choose_sort_window(batch_size, sort_window)
    _check_count("threads", threads, 1)
    _check_count("done", 0 if isinstance(done, Collection) and not isinstance(done, str) else done, 0)
    _check_count("first_line", first_line, 1)
    for name, value, known in (("overlap", overlap, OVERLAPS), ("on_error", on_error, ON_ERROR)):
        if value not in known:
            raise OptionError(f"{name} must be one of {', '.join(known)}, not {value!r}")
    if model.tokenizer is None:
        raise InputError(model.inputs.no_tokenizer_message("call generate with input_ids"))
    if isinstance(lines, str | bytes) or not (isinstance(lines, Iterable) or hasattr(lines, "__getitem__")):
        raise InputError("lines must be several, such as a list of texts or an open file")
    if chat and truncate:
        raise OptionError(CUT_CHAT)
    parse_budget(memory_budget)
    check_logprobs(logprobs, model.config.generated_vocab_size)
    plan = model.plan if plan is None else Plan.parse(plan)
    plan.resolve(device=model.device, **model.plan_traits)
    latent = model.shared_latent(latent, latent_seed)  # lines are sorted, so that none of several would find its text
    given = ("logprobs", logprobs), ("latent", latent), ("latent_seed", latent_seed), ("draft", draft)
    stages = Generating(
        model, lines, RunReceipt(overlap), jsonl=jsonl, source=source, batch_size=batch_size,
        sort_window=window, on_error=on_error, traced=trace, render=render, on_batch=on_batch, chat=chat,
        done=frozenset(done) if isinstance(done, Collection) else range(first_line, first_line + done),
        keeps_order=keeps_order, first_line=first_line, sample_ids=sample_ids,
        how={"plan": plan, "arena": arena, "truncate": truncate, "memory_budget": memory_budget, "costs": costs}
        | {name: value for name, value in given if value is not None},
        options=dict(options),
    )  # fmt: skip
    return LineRun(stages, overlap in ("both", "prefetch"), threads if overlap in ("both", "post-process") else 0)


def choose_sort_window(batch_size: int, sort_window: int | None) -> int:
    """How many lines are sorted and batched together. Raises OptionError on what is no such number."""
    _check_count("batch_size", batch_size, 1)
    window = 8 * batch_size if sort_window is None else sort_window
    _check_count("sort_window", window, 1)
    return min(max(window, batch_size), sys.maxsize)  # more than itertools can count is all of them


def _check_count(name: str, number: Any, least: int) -> None:
    if isinstance(number, bool) or not isinstance(number, numbers.Integral) or number < least:
        raise OptionError(f"{name} must be an integer from {least} up, not {number!r}")


def check_lines(
    model: Model, lines: Iterable[Any], *, jsonl: bool, source: str, truncate: bool, chat: bool = False, **options: Any
) -> int:
    """How many lines there are. Raises the LineError of the first that cannot be done; nothing is generated."""
    return check_all_lines(Generating(
        model, lines, RunReceipt("none"), jsonl=jsonl, source=source, batch_size=1, sort_window=64,
        how={"truncate": truncate}, options=options, chat=chat,
    ))  # fmt: skip


def check_all_lines(stages: Stages) -> int:
    """How many lines there are. Raises the LineError of the first that cannot be done; nothing is computed."""
    for batch in stages.batches():
        for line in batch:
            if line.error:
                raise line.error
    return stages.lines_read
