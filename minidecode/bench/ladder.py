"""FastSeq's Table 2 on the user's machine: one switch after another, from no cache to all that is fast here.

Measuring, the table and its JSON stay in one file: each column of the one is a field of the other.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import statistics
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import ops as signatures
from ..catalog import Cost, sum_of_costs
from ..device.blas_threads import few_blas_threads
from ..device.low_precision import DYNAMIC
from ..errors import InputError, NumericalError, OptionError, counted
from ..methods.loaded import refuse_other_than_model
from ..model import Model
from ..options.checks import Number, Whole
from ..runtime.footprint import format_bytes, parse_budget
from ..runtime.receipt import Receipt
from ..search.compiled import call_when_compiling, timing_compilations
from .compare import describe_machine
from .frontier import Frontier, explore, wrap_text
from .machines import MACHINES, Machine, known_machines, this_machine
from .rungs import (
    NO_CACHE,
    RUNGS,
    Run,
    Rung,
    Setting,
    Work,
    cost_as_written,
    differing_texts,
    is_tie,
    is_tie_of_greedy,
    run_and_measure_peak_bytes,
    run_ids,
    run_texts,
    summarize_receipts,
    switch_setting,
    weights_bytes,
)

STAGES = {  # op -> the stage that its seconds belong to (FastSeq, Figure 1)
    **dict.fromkeys(("linear", "linear_epilogue", "linear_int8", "project_cross_kv"), "products"),
    **dict.fromkeys((op for op in vars(signatures) if op.startswith("attend")), "attention"),
    **dict.fromkeys(
        ("reorder_cache", "gather_rows", "concat_step", "update_indirection", "append_kv", "append_paged", "copy_pages",
         "pad_left"), "cache moves"),
    **dict.fromkeys(("embed_norm", "residual_norm", "split_heads", "add_bias", "bias_activation", "rotate_heads"),
                    "between products"),
    "ban_ngrams": "n-gram ban",
    **dict.fromkeys(
        ("update_sequences", "update_beams", "store_finished", "step_flags", "extend_sequences", "log_softmax",
         "add_beam_scores", "token_logprobs", "argmax_tokens", "apply_temperature", "top_k_filter", "top_p_filter",
         "typical_filter", "bias_sequences", "penalize_tokens", "sample_tokens", "gather_logprobs",
         "top_candidates", "hars_candidates", "gumbel"), "search"),
    "assign_offsets": "planning memory",
}  # fmt: skip
REST, PLANNING, TEXTS = "no op (Python)", "planning memory", "reading and text"
SHARES = ("products", "attention", "cache moves", "between products", "n-gram ban", "search", REST, PLANNING, TEXTS)
TRIALS = 5  # turns of a rung and of the one before it, before it is decided which of the two goes on
CLEARLY = 1.05  # so much slower, in the best of these turns, is a loss; less may be noise, unless more is to be done
OPEN = 1.5  # within this factor it is open after two turns which of the two is faster
FAR = 4.0  # no other work on the machine makes as much
BUSY = 0.5  # of the cores: with a higher load average before the ladder, its times are those of a busy machine
NO_TIME, MORE_SECONDS = "no time was left (--seconds)", 90  # of a rung without any, and what suffices for tiny-gpt2
LONG = 10.0  # seconds in turns after which a rung is not run again


@dataclass
class Step:
    """A rung as it was measured. seconds: of all texts, [median, fastest, slowest]; everything else beside is of the
    same texts. `builds_on` is what it is compared with: the last rung that was carried on."""

    name: str
    paper: str
    builds_on: str = ""
    not_run: str = ""  # why, and then nothing else counts
    plan: str = ""
    dtype: str = ""
    batch_size: int = 0
    overlap: str = ""
    no_repeat_ngram_size: int = 0
    ran: dict[str, str] = field(default_factory=dict)  # what the receipts show of the switch
    differing: int = 0  # texts with other tokens than those of the rung before: ties, or another precision
    other_precision: bool = False
    trial: list[float] = field(default_factory=list)  # seconds at best, of this rung and of the one before
    carried: bool = True  # whether the next rungs have this switch too: whether it did not lose that trial
    seconds: list[float] = field(default_factory=list)
    runs: int = 0
    samples_per_second: float = 0.0
    speedup: float = 1.0  # over what it builds on: the median of the turns' ratios
    speedup_total: float = 1.0  # over the first rung
    compile_seconds: float = 0.0  # the first run's seconds beyond the median: compiled code, read or made
    memory_bytes: int = 0  # keys and values (or hidden states) between steps, of the largest batch
    peak_bytes: int = 0  # at one moment, beyond the weights; see rungs.peak_of
    weights_bytes: int = 0
    shares: dict[str, float] = field(default_factory=dict)  # of the busy seconds, by stage
    cost: dict[str, int] = field(default_factory=dict)  # bytes and operations at least, of all ops
    predicted: dict[str, float] = field(default_factory=dict)  # samples/s of another machine, at the best
    why: str = ""  # where it is slower than what it builds on
    timed_once: bool = False  # because the seconds that the ladder may take were over

    @property
    def outcome_in_words(self) -> str:
        """The outcome of a slower rung, in words. By noise it may lose its trial and win the turns, or the reverse."""
        if self.carried:
            return "slower, but its trial was too close to tell, so it is kept"
        if self.speedup < 1:
            return "slower, so it is dropped"
        return f"slower in its trial ({self.trial[0]:.3f} s; before: {self.trial[1]:.3f} s), so it is dropped"


@dataclass
class Ladder:
    """What `ladder` found; str() of it are the tables."""

    work: dict[str, Any]
    steps: list[Step]
    machine: dict[str, Any]  # this one, as measured: bandwidth, operations
    predicted: list[str]  # other machines
    where: dict[str, str]
    frontier: Frontier | None = None

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Ladder:
        """What `as_dict` made. Raises KeyError or TypeError if it is something else."""
        steps, frontier = [Step(**s) for s in record["steps"]], record["frontier"]
        return cls(**(record | {"steps": steps, "frontier": frontier and Frontier.from_dict(frontier)}))

    @property
    def measured(self) -> list[Step]:
        return [s for s in self.steps if not s.not_run]

    def __str__(self) -> str:
        return "\n\n".join(filter(None, [
            self._load_warning(), self._table_of_times(), self._prediction_lines(), self._share_lines(),
            self.frontier and str(self.frontier), self._note_lines(),
        ]))  # fmt: skip

    def _load_warning(self) -> str:
        """A warning if other work ran when the ladder began; else ""."""
        load, cores = self.where.get("load"), self.where["cores"]
        if load is None or float(load) <= BUSY * int(cores):
            return ""
        return wrap_text(
            f"Warning: other work was running (load average {load} on {cores} cores). The times below are of a busy "
            "machine: stop that work, wait a minute and run again."
        )

    def _table_of_times(self) -> str:
        lines = [
            f"{self.work['model']}: {counted(self.work['texts'], 'text')} of about"
            f" {self.work['input_length']} tokens, "
            f"{self.work['max_new_tokens']} new, {counted(self.work['num_beams'], 'beam')}",
            f"{'rung':<26} {'samples/s':>10} {'seconds: median, least to most':>31} {'speedup':>8} {'in all':>8}"
            f" {'tokens':>10} {'cache':>8} {'peak':>8}",
        ]
        return "\n".join([*lines, *map(self._table_row, self.steps)])

    def _table_row(self, s: Step) -> str:
        if s.not_run:
            return wrap_text(f"{s.name:<26} not run: {s.not_run}", further=" " * 27)
        median, least, most = s.seconds
        spread = f"{median:.3f}, {least:.3f} to {most:.3f}"
        tokens = "equal" if not s.differing else f"{s.differing} {'other' if s.other_precision else 'tied'}"
        why = (
            "\n" + wrap_text(f"  {s.outcome_in_words}. {s.why[:1].upper()}{s.why[1:]}.", further="  ") if s.why else ""
        )
        why += "\n  timed once: no time was left for more (--seconds)" if s.timed_once else ""
        return (
            f"{s.name:<26} {s.samples_per_second:>10.2f} {spread:>31} {s.speedup:>7.2f}x {s.speedup_total:>7.1f}x"
            f" {tokens if s.builds_on else '':>10} {format_bytes(s.memory_bytes):>8} {format_bytes(s.peak_bytes):>8}"
            f"{why}"
        )

    def _prediction_lines(self) -> str:
        """A line of predictions for other machines; "" if none was asked for."""
        lines = [f"{'samples/s, predicted':<26}" + "".join(f" {m:>10}" for m in self.predicted)]
        lines += [f"{s.name:<26}" + "".join(f" {s.predicted[m]:>10,.0f}" for m in self.predicted)
                  for s in self.measured]  # fmt: skip
        return "\n".join(lines) if self.predicted else ""

    def _share_lines(self) -> str:
        """Each stage's name is in two lines above its column."""
        first, second = zip(*(["", *textwrap.wrap(name, 9)][-2:] for name in SHARES), strict=True)
        lines = [f"{head:<26}" + "".join(f" {word:>9}" for word in words)
                 for head, words in (("percent of the", first), ("busy seconds", second))]  # fmt: skip
        lines += [f"{s.name:<26}" + "".join(f" {100 * s.shares.get(name, 0):>9.1f}" for name in SHARES)
                  for s in self.measured]  # fmt: skip
        return "\n".join(lines)

    def _note_lines(self) -> str:
        weights = ", ".join(
            f"{format_bytes(w)} in {d}" for d, w in {s.dtype: s.weights_bytes for s in self.measured}.items()
        )
        m = self.machine
        notes = [
            "speedup: over the last rung that was kept, the median of the rounds' ratios. in all: over no cache. "
            "cache: bytes of keys and values between steps. peak: the most bytes at one moment. Both are without the "
            f"weights ({weights}).",
            f"This machine, measured: {m['bandwidth'] / 1e9:,.1f} GB/s, {m['operations'] / 1e9:,.0f} GFLOP/s. "
            f"Compiling code, or reading it from disk, took {sum(s.compile_seconds for s in self.measured):.1f} s; no "
            f"figure includes them. BLAS threads: {self.where['blas_threads']}; load average before the ladder "
            f"{self.where.get('load', 'unknown')} on {self.where['cores']} cores.",
        ]
        if smaller := self.work.get("smaller"):
            given = ", ".join(f"--{name.replace('_', '-')}" for name in smaller)
            notes.append(f"Sizes are smaller than the defaults, to fit the time (--seconds). To choose them: {given}.")
        if without := sum(s.not_run == NO_TIME for s in self.steps):
            notes.append(f"Rungs without time: {without}. To run them, give more --seconds, such as {MORE_SECONDS}.")
        if any(s.no_repeat_ngram_size != self.work["no_repeat_ngram_size"] for s in self.measured):
            notes.append(
                "HARS takes candidates straight from the logits, which a ban of "
                f"{self.work['no_repeat_ngram_size']}-grams changes at every step. So HARS is timed without the ban, "
                "against the rung before it without the ban. Later rungs have the ban, and so no HARS."
            )
        if other := [s.name for s in self.measured if s.other_precision]:
            notes.append(f"Another precision, so another model: {' and '.join(other)}; their other tokens are counted.")
        if self.predicted:
            notes.append(
                "Predicted, not measured: the least time of each op on that machine (its bytes or its operations, "
                "whichever takes longer), summed. Naive attention, and what is between products, counts operation by "
                "operation; all other ops count at their least. Launches, Python and the pipeline are left out, so "
                "rungs that save only those change nothing."
            )
        return "\n".join(map(wrap_text, notes))


def read_ladder(path: Path) -> Ladder:
    """The ladder that `ladder --json` printed into a file. Raises InputError on other files."""
    try:
        return Ladder.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{path} holds no ladder: write one with minidecode ladder --json") from None


# ---- the ladder ------------------------------------------------------------------------------------------------------


DOES = {  # each rung in a few words, for those who wait
    "cache": "keeps keys and values", "pipeline": "reads and writes while the model runs",
    "n-gram": "bans n-grams in compiled code", "cache de-duplication": "beams share the prompt's keys and values",
    "EL": "keeps hidden states in place of keys and values", "fused kernels": "fewer passes over memory",
    "HARS": "finds candidates without sorting", "planned memory": "one arena for all steps",
    "paged cache": "pages of 16 positions, which beams share",
    "drafted tokens": "guesses tokens, and checks several at once",
    "low precision": "int8 weights, float16 cache", "larger batch": "all texts together",
}  # fmt: skip
FEWEST_NEW = 3  # with fewer, switches are on and nothing runs them


def ladder(
    model: Model, *, texts: int = 4, input_length: int = 64, max_new_tokens: int = 16, num_beams: int = 4,
    no_repeat_ngram_size: int = 3, batch_size: int = 2, repeats: int = 3, memory_budget: int | str | None = None,
    cell_seconds: float = 4.0, machine: str | Iterable[str] = (), name: str = "model",
    seconds: float | None = None, may_shrink: Collection[str] = (),
    progress: Callable[[float, int], None] = lambda done, total: None,
    announce: Callable[[str], None] = lambda what: None,
) -> Ladder:  # fmt: skip
    """What each optimization buys on this machine: FastSeq's Table 2, continued with those of EL and LightSeq.

    Every rung adds one switch to the rungs before it. First each runs once, untimed: its tokens must be those of the
    rung before (up to ties that rounding explains; another precision is counted), and its receipts must show that the
    switch was on. One that is slower than the rung before it in a trial of up to five turns is not carried on. Then all
    run by turns, `repeats` times. Texts have a fixed number of new tokens.

    memory_budget: also double the batch, method by method, until it would need more (bench/frontier.py); no cell that
    takes longer than about cell_seconds is timed. machine: predict for v100, t4, h100 or h200 too. name: the model's,
    in the tables. announce: told, in words, what is about to run. seconds: about how long it may take, without batches
    that are doubled: sizes in `may_shrink` are made smaller, fewer turns are run, a rung without time left is not run.

    Works for a model with random weights, which has no tokenizer: then there is no pipeline.

    Raises NumericalError if a rung's tokens differ: nothing is timed then. OptionError and InputError as `generate`.
    """
    refuse_other_than_model("ladder", model)
    others = known_machines(machine)
    whole = {"texts": texts, "input_length": input_length, "batch_size": batch_size, "repeats": repeats,
             "max_new_tokens": max_new_tokens, "num_beams": num_beams}  # fmt: skip
    for what, number in whole.items():
        Whole(1)(what, number)
    for what, limit in (("seconds", seconds), ("cell_seconds", cell_seconds)):
        Number(lambda number: number >= 0, "from 0 up", may_be_none=what == "seconds")(what, limit)
    if max_new_tokens < FEWEST_NEW:
        raise OptionError(
            f"max_new_tokens must be at least {FEWEST_NEW}, not {max_new_tokens}: a model may force the first and the"
            " last token, and rungs change the steps between"
        )
    load = load_average()
    cap = parse_budget(memory_budget)
    if memory_budget is not None and cap is None:
        reason = "is no limit" if memory_budget == "none" else "is not known on this system"
        raise OptionError(
            f"memory_budget={memory_budget} {reason}, so batches would never end: give bytes, such as 2GB"
        )
    clock, total = Clock(seconds), len(RUNGS) + 1 + repeats
    work, fitting = work_that_model_holds(model, whole, may_shrink)  # which says what cannot be
    if seconds is not None and may_shrink:
        announce("choosing sizes that fit the time")
        fitting = fit_sizes(model, fitting, may_shrink, seconds)
        work, fitting = work_that_model_holds(model, fitting, may_shrink)
    smaller = [size for size, number in fitting.items() if number != whole[size]]
    whole = fitting
    here = this_machine(int8=model.dtype in DYNAMIC)
    steps, climbed = climb_rungs(
        work, whole["batch_size"], no_repeat_ngram_size, here, bool(others), lambda done: progress(done, total),
        announce, clock,
    )  # fmt: skip
    rounds = counted(repeats, "round")
    announce(f"final timing, {rounds if seconds is None else f'up to {rounds}'} of all rungs")
    turns = time_by_turns(work, climbed, repeats, lambda done: progress(len(RUNGS) + 1 + done, total), clock)
    machines = [MACHINES[m] for m in others]
    by_name = {c.step.name: c for c in climbed}
    for mine in climbed:
        fill_in_step(mine, by_name.get(mine.step.builds_on), turns, here, machines)
        mine.step.timed_once = mine.step.runs == 1 < repeats and len(turns) < repeats
    about = {"model": name, "no_repeat_ngram_size": no_repeat_ngram_size} | whole
    if seconds is not None:
        about |= {"seconds": seconds, "smaller": smaller}
    frontier = None
    if cap is not None or others:
        announce("batch sizes, method by method")
        frontier = explore(work, no_repeat_ngram_size, cap, machines, repeats, cell_seconds)
    rates = {"name": here.name, "bandwidth": here.bandwidth, "operations": here.operations}
    where = (
        describe_machine() | {"blas_threads": blas_threads(model)} | ({} if load is None else {"load": f"{load:.1f}"})
    )
    return Ladder(about, steps, rates, [m.name for m in machines], where, frontier)


def load_average() -> float | None:
    """How many processes wanted a core in the last minute; None where the system does not say."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def blas_threads(model: Model) -> str:
    """Threads of the BLAS while the model generates."""
    from threadpoolctl import threadpool_info

    with few_blas_threads(model.is_small):
        threads = sorted({i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"})
    return ", ".join(map(str, threads)) or "unknown"


@dataclass
class Climbed:
    """A rung that ran: what is known before it is timed."""

    step: Step
    setting: Setting
    first: Run  # untimed, with what each of its calls takes at least
    written: list[Receipt]  # the same, where naive code is counted operation by operation; for other machines
    fastest: float = 0.0  # seconds of a run, as far as it is known before the turns
    planning: float = 0.0  # the share of its seconds in which memory was planned, once a generation
    busy: Counter[str] = field(default_factory=Counter)  # seconds of all turns, by stage


class Clock:
    """How much is left of the seconds that a ladder may take; None: it may take any time."""

    def __init__(self, seconds: float | None):
        self.began, self.seconds = time.perf_counter(), math.inf if seconds is None else seconds
        self.compiling = 0.0  # seconds that do not count: later runs on this machine find the code on disk

    @property
    def seconds_without_compiling(self) -> float:
        return time.perf_counter() - self.began - self.compiling

    @contextmanager
    def stopped_while_compiling(self, tell: Callable[[], None]) -> Iterator[None]:
        """tell: called when the compiler starts, if it does."""
        seconds: list[float] = []
        try:
            with timing_compilations(True) as seconds, call_when_compiling(tell):
                yield
        finally:
            self.compiling += sum(seconds)

    def has_seconds_left(self, seconds: float) -> bool:
        """Whether this many seconds are left."""
        return self.seconds_without_compiling + seconds <= self.seconds

    def describe_seconds_left(self, done: int, total: int) -> str:
        """An estimate, in words, when this share of the work is done."""
        left = min(
            self.seconds_without_compiling / done * (total - done),
            max(self.seconds - self.seconds_without_compiling, 0.0),
        )
        return f"about {left:.0f} s left"


NO_CACHE_RUNS = 40  # runs of all rungs together, compiling included, in runs of the one without a cache
LOADING = 1.0  # seconds that a rung may need to read its compiled code
RUNS_OF_A_RUNG = 8  # before the last turns: with costs, under tracemalloc, which both are slower, and the trial's
SLOWER = 1.5  # the last turns may be by so much, than the fastest runs before
MOST_PLANNING = 0.1  # of a run's seconds: what is done once a generation hides what a technique saves at each step
WORK_SIZES = ("texts", "input_length", "num_beams", "max_new_tokens")  # in the order of Work.make
SMALLEST = {"max_new_tokens": 4, "input_length": 16, "texts": 2, "batch_size": 1}


def work_that_model_holds(
    model: Model, sizes: dict[str, int], may_shrink: Collection[str]
) -> tuple[Work, dict[str, int]]:
    """(texts of these sizes, the sizes): of shorter prompts, if they may be and the model holds no longer ones."""
    refused: OptionError | None = None  # which names the sizes that were asked for
    while True:
        try:
            return Work.make(model, *(sizes[name] for name in WORK_SIZES)), sizes
        except OptionError as error:
            refused = refused or error
            if "input_length" not in may_shrink or sizes["input_length"] == 1:
                raise refused from None
            sizes = sizes | {"input_length": sizes["input_length"] // 2}


def fit_sizes(model: Model, sizes: dict[str, int], may_shrink: Collection[str], seconds: float) -> dict[str, int]:
    """These sizes, or smaller ones with which the ladder takes about this many seconds here.

    One short run without a cache is timed. Of larger ones the time grows with the tokens that they compute.
    """
    probe = {"texts": 1, "input_length": 4, "num_beams": sizes["num_beams"], "max_new_tokens": FEWEST_NEW}
    work = Work.make(model, *probe.values())
    setting = Setting(dict(NO_CACHE.choices), model.dtype, 1, 0)
    taken = min(run_ids(work, setting).seconds for _ in range(2)) / tokens_without_cache(probe)
    sizes = dict(sizes)
    while taken * tokens_without_cache(sizes) * NO_CACHE_RUNS > seconds:
        larger = [size for size, least in SMALLEST.items() if size in may_shrink and sizes[size] >= 2 * least]
        if not larger or larger == ["batch_size"]:
            break
        most = max(larger, key=lambda size: sizes[size] / SMALLEST[size] if size != "batch_size" else 0)
        sizes[most] //= 2
        if sizes["batch_size"] >= sizes["texts"] and "batch_size" in may_shrink:  # the last rung takes all at once
            sizes["batch_size"] = max(1, sizes["texts"] // 2)
    return sizes


def tokens_without_cache(sizes: dict[str, int]) -> int:
    """Tokens that a search without a cache computes: at each step every one again."""
    new = sizes["max_new_tokens"]
    return sizes["texts"] * sizes["num_beams"] * (new * sizes["input_length"] + new * (new - 1) // 2)


def climb_rungs(
    work: Work, batch_size: int, ngram: int, here: Machine, predicts: bool, progress: Callable[[float], None],
    announce: Callable[[str], None], clock: Clock,
) -> tuple[list[Step], list[Climbed]]:  # fmt: skip
    """Each rung once: (all rungs, those that ran). What a loser switched is switched back.

    A rung is not run if no time is left for it and for a turn of all rungs.
    """
    start = Setting(dict(NO_CACHE.choices), work.model.dtype, batch_size, ngram)
    announce(f"1/{len(RUNGS) + 1} {NO_CACHE.name}: each step reads the whole text again")
    below = try_rung(work, NO_CACHE, start, None, predicts)
    steps, climbed = [below.step], [below]
    progress(1)
    count = len(RUNGS) + 1
    for done, rung in enumerate(RUNGS, 2):
        a_turn = below.fastest + sum(each.fastest for each in climbed)
        if not clock.has_seconds_left(LOADING + RUNS_OF_A_RUNG * below.fastest + SLOWER * a_turn):
            announce(f"{done}/{count} {rung.name}: left out, no time is left")
            steps.append(Step(rung.name, rung.paper, not_run=NO_TIME))
            progress(done)
            continue
        announce(f"{done}/{count} {rung.name}: {DOES[rung.name]}; {clock.describe_seconds_left(done - 1, count)}")
        compiling = f"compiling for {rung.name}: once on this machine, and not counted in --seconds"
        try:
            with clock.stopped_while_compiling(lambda said=compiling: announce(said)):
                before, mine = try_rungs_above(below, rung, work, predicts)
            check_size(mine)
        except OptionError as error:
            steps.append(Step(rung.name, rung.paper, not_run=str(error).removeprefix("plan: ")))
            progress(done)
            continue
        measured = [mine] if before is below else [before, mine]
        steps += [each.step for each in measured]
        climbed += measured
        progress(done - 0.5)  # compiled, and right
        decide_on_switch(work, mine, before, here, clock)
        if not mine.step.carried or not rung.is_built_on:
            pass
        elif before is below:
            below = mine
        else:  # it was timed without the ban, which the next rungs have again
            carried = rung.choices if rung.carries is None else rung.carries
            settled = dataclasses.replace(below.setting, choices=below.setting.choices | carried)
            below = dataclasses.replace(below, setting=settled)
        progress(done)
    return steps, climbed


def try_rungs_above(below: Climbed, rung: Rung, work: Work, predicts: bool) -> tuple[Climbed, Climbed]:
    """(what the rung is compared with, the rung): the first is the last one carried on, or that without its ban.

    Raises OptionError where the rung has nothing to switch.
    """
    before, after = below, switch_setting(below.setting, rung, work)
    if rung.only_without_ngrams and below.setting.no_repeat_ngram_size:
        without = dataclasses.replace(below.setting, no_repeat_ngram_size=0)
        before = try_rung(work, Rung(f"{below.step.name}, no ban", below.step.paper), without, None, predicts)
        after = dataclasses.replace(after, no_repeat_ngram_size=0)
    return before, try_rung(work, rung, after, before, predicts)


def check_size(mine: Climbed) -> None:
    """Raises OptionError on a rung that would look harmful, because so short a generation does not show it."""
    if mine.planning > MOST_PLANNING:
        raise OptionError(
            f"planning, which is done once, took {100 * mine.planning:.0f} % of so short a generation: give more "
            "--max-new-tokens to see what it saves at each step"
        )
    if mine.setting.drafts and not any(receipt.drafts.drafted for receipt in mine.first.receipts):
        raise OptionError("no token was guessed, because no words of a text came back: give more --max-new-tokens")


def decide_on_switch(work: Work, mine: Climbed, before: Climbed, here: Machine, clock: Clock) -> None:
    """Whether the next rungs have this switch too, by a trial against the one before."""
    seconds, before_seconds = race_rungs(work, mine.setting, before, clock)
    mine.fastest = min(seconds)
    mine.step.trial = [min(seconds), min(before_seconds)]
    mine.step.carried = not is_slower(seconds, before_seconds, least_ratio(mine, before, here))


def try_rung(work: Work, rung: Rung, setting: Setting, before: Climbed | None, predicts: bool) -> Climbed:
    """A rung's first two runs: with the costs of its calls, then as it will be timed, under tracemalloc.

    Raises NumericalError if its tokens are not those before, or if its receipts do not show the switch.
    """
    first = run_ids(work, setting, costs=True)
    again, peak = run_and_measure_peak_bytes(lambda: run_texts(work, setting))
    if parted := differing_texts(first, again):
        raise NumericalError(f"{rung.name}: run twice, text {parted[0] + 1} is another: nothing is timed")
    step = Step(
        rung.name, rung.paper, plan=str(setting.plan), dtype=setting.dtype, batch_size=setting.batch_size,
        overlap=setting.overlap, no_repeat_ngram_size=setting.no_repeat_ngram_size,
        ran=check_switch_was_on(again, rung), peak_bytes=peak,
        memory_bytes=max(r.cache_peak_bytes for r in again.receipts),
        weights_bytes=weights_bytes(work.model_stored_as(setting.dtype)),
        cost=vars(sum_of_costs(cost for r in first.receipts for cost in costs_in_receipt(r))),
    )  # fmt: skip
    if before is not None:
        step.builds_on, step.other_precision = before.step.name, setting.is_low_precision
        step.differing = other_texts(work, rung, setting, first, before)
    is_naive = any("_naive" in c.implementation for c in first.receipts[0].ops.values())
    written = run_ids(work, setting, costs=cost_as_written) if is_naive and predicts else first
    planning = sum(r.seconds.get("plan", 0.0) for r in again.receipts)
    return Climbed(step, setting, first, written.receipts, min(first.seconds, again.seconds), planning / again.seconds)


def check_switch_was_on(done: Run, rung: Rung) -> dict[str, str]:
    """Checks by the receipts that the rung's code ran, and returns what they name. Raises NumericalError otherwise."""
    facts = summarize_receipts(done)
    for what, words in rung.ran.items():
        if words not in facts.get(what, ""):
            raise NumericalError(f"{rung.name} was asked for and did not run: {what} shows {facts.get(what)!r}")
    return {what: facts[what] for what in rung.ran}


def other_texts(work: Work, rung: Rung, setting: Setting, first: Run, before: Climbed) -> int:
    """The number of texts whose tokens differ from before by ties or precision. Raises NumericalError on others."""
    parted = differing_texts(first, before.first)
    for number in parted:
        if setting.is_low_precision:
            break
        if setting.drafts:
            is_tied = is_tie_of_greedy(work, number, before.first, first)
        else:
            is_tied = is_tie(work, number, before.setting, setting)
        if not is_tied:
            raise NumericalError(
                f"{rung.name} gives text {number + 1} of {len(work.ids)} other tokens than {before.step.name}, "
                "and no tie explains it: nothing is timed"
            )
    return len(parted)


def race_rungs(work: Work, mine: Setting, before: Climbed, clock: Clock) -> tuple[list[float], list[float]]:
    """Seconds of both by turns: two runs each at least, and more while it is unclear which is faster, and time is left.

    What is known of the one before from its own trial counts only against a rung that is FAR faster, or where no time
    is left: the machine may have had other work then.
    """
    seconds = [run_texts(work, mine).seconds]
    if before.fastest > FAR * seconds[0] or not clock.has_seconds_left(len(RUNGS) * (seconds[0] + before.fastest)):
        return seconds, [before.fastest]
    before_seconds = [run_texts(work, before.setting).seconds]
    while len(seconds) < TRIALS and (len(seconds) < 2 or 1 / OPEN < min(seconds) / min(before_seconds) < OPEN):
        needed = len(RUNGS) * (seconds[-1] + before_seconds[-1])  # as much for each of the others
        if not clock.has_seconds_left(needed):
            break
        seconds.append(run_texts(work, mine).seconds)
        before_seconds.append(run_texts(work, before.setting).seconds)
    return seconds, before_seconds


def is_slower(mine: list[float], before: list[float], least: float) -> bool:
    """Whether a rung is slower in its best turn and in the median; clearly slower, unless the cost model
    says so too.

    least: how much more time it takes at least, by the cost model.
    """
    factor = 1.0 if least > 1.01 else CLEARLY
    return all(middle(mine) > factor * middle(before) for middle in (min, statistics.median))


def time_by_turns(
    work: Work, climbed: list[Climbed], repeats: int, progress: Callable[[float], None], clock: Clock
) -> list[dict[str, float]]:
    """Seconds of each rung, turn by turn: [turn][name of the rung]. A slow moment of the machine affects all of them.

    The order changes from turn to turn. A rung that has taken LONG already is left out of later turns. A
    turn for which no time is left is not run, if there was one.
    """
    turns: list[dict[str, float]] = []
    for turn in range(repeats):
        done: dict[str, float] = {}
        if turns and not clock.has_seconds_left(sum(turns[-1].values())):
            break
        for number, mine in enumerate(climbed if turn % 2 == 0 else reversed(climbed)):
            progress(turn + number / len(climbed))
            name = mine.step.name
            if sum(t.get(name, 0.0) for t in turns) < LONG:
                result = run_texts(work, mine.setting)
                mine.busy += seconds_by_stage(result)
                done[name] = result.seconds
        turns.append(done)
        progress(turn + 1)
    return turns


def fill_in_step(
    mine: Climbed, before: Climbed | None, turns: list[dict[str, float]], here: Machine, machines: list[Machine]
) -> None:
    """Fills in what the turns say of a rung. before: what it builds on, if anything."""
    step, samples = mine.step, len(mine.first.tokens)
    seconds = [turn[step.name] for turn in turns if step.name in turn]
    step.runs = len(seconds)
    step.seconds = [statistics.median(seconds), min(seconds), max(seconds)]
    step.samples_per_second = samples / step.seconds[0]
    step.compile_seconds = max(0.0, mine.first.seconds - max(seconds))
    step.speedup_total = median_ratio(turns, NO_CACHE.name, step.name)
    busy = sum(mine.busy.values())
    step.shares = {stage: s / busy for stage, s in mine.busy.items() if s > 0}
    step.predicted = {m.name: samples / least_seconds(mine.written, m) for m in machines}
    if before is not None:
        step.speedup = median_ratio(turns, before.step.name, step.name)
        if step.speedup < 1 or not step.carried:
            step.why = why_slower(mine, before, here)


def median_ratio(turns: list[dict[str, float]], one: str, other: str) -> float:
    """How many times as long as the other rung this one takes: the median of the turns that timed both."""
    return statistics.median(turn[one] / turn[other] for turn in turns if one in turn and other in turn)


def seconds_by_stage(done: Run) -> Counter[str]:
    """Stage -> its busy seconds. A pipeline's stages are busy at the same time, so they may add up to more than the
    clock says."""
    busy: Counter[str] = Counter()
    for receipt in done.receipts:
        for op, count in receipt.ops.items():
            busy[STAGES[op]] += count.seconds
        planning, in_ops = receipt.seconds.get("plan", 0.0), sum(c.seconds for c in receipt.ops.values())
        busy[PLANNING] += planning
        busy[REST] += sum(receipt.seconds.values()) - in_ops - planning
    busy[TEXTS] += sum(done.busy.values())
    return busy


# ---- the cost model --------------------------------------------------------------------------------------------------


def costs_in_receipt(receipt: Receipt) -> list[Cost]:
    return [cost for count in receipt.ops.values() for cost in count.costs]


def least_seconds(receipts: Iterable[Receipt], machine: Machine) -> float:
    """The least time of all calls of all ops, one after the other, each at the machine's roofline."""
    return sum(machine.seconds(cost) for receipt in receipts for cost in costs_in_receipt(receipt))


def costs_by_stage(receipts: list[Receipt]) -> dict[str, list[Cost]]:
    costs: dict[str, list[Cost]] = {}
    for receipt in receipts:
        for op, count in receipt.ops.items():
            costs.setdefault(STAGES[op], []).extend(count.costs)
    return costs


def least_ratio(mine: Climbed, before: Climbed, here: Machine) -> float:
    """The least time of a rung over that of the one before it."""
    return least_seconds(mine.first.receipts, here) / least_seconds(before.first.receipts, here)


def why_slower(mine: Climbed, before: Climbed, here: Machine) -> str:
    """What the cost model, and else the measured stages, say of a rung that is slower than what it builds on."""
    if least_ratio(mine, before, here) > 1.01:
        return stage_that_grows_most(costs_by_stage(mine.first.receipts), costs_by_stage(before.first.receipts), here)
    whole_now, whole_then = (1e3 * least_seconds(c.first.receipts, here) for c in (mine, before))
    a, b = mine.step, before.step
    now, then = ({stage: s / c.step.runs for stage, s in c.busy.items()} for c in (mine, before))
    grown = max(SHARES, key=lambda stage: now.get(stage, 0) - then.get(stage, 0))
    notes = [
        f"the cost model expects at least {whole_now:.1f} ms, and {whole_then:.1f} ms for the rung before",
        f"measured, the stage {grown!r} went from {1e3 * then.get(grown, 0):.0f} to {1e3 * now.get(grown, 0):.0f} ms",
    ]
    if (before_bytes := format_bytes(b.peak_bytes)) != (now_bytes := format_bytes(a.peak_bytes)):
        notes.append(f"peak memory went from {before_bytes} to {now_bytes}")
    if a.seconds[1] <= b.seconds[2] and b.seconds[1] <= a.seconds[2]:
        notes.append(f"the times overlap ({_span_of_turns(a)}; before: {_span_of_turns(b)})")
    return "; ".join(notes)


def stage_that_grows_most(now: dict[str, list[Cost]], then: dict[str, list[Cost]], here: Machine) -> str:
    """The stage whose least time grows the most, and why: operations or bytes."""
    least = {s: [sum(map(here.seconds, side.get(s, []))) for side in (now, then)] for s in now | then}
    stage = max(least, key=lambda s: least[s][0] - least[s][1])
    a, b = (sum_of_costs(side.get(stage, [])) for side in (now, then))
    decides = "arithmetic" if a.operations > here.balance * a.bytes else "memory"
    return (
        f"{stage} does {a.operations / 1e6:,.0f} million operations (before: {b.operations / 1e6:,.0f}) and moves "
        f"{format_bytes(a.bytes)} (before: {format_bytes(b.bytes)}). That is"
        f" {a.operations / max(a.bytes, 1):.1f} operations "
        f"per byte. This machine does {here.balance:.1f} in the time of a byte, so {decides} is the limit. The cost "
        f"model expects at least {1e3 * least[stage][0]:.1f} ms (before: {1e3 * least[stage][1]:.1f} ms)"
    )


def _span_of_turns(step: Step) -> str:
    return f"{step.seconds[1]:.3f} to {step.seconds[2]:.3f} s"
