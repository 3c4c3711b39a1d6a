"""Requests that share steps: each answer is that of `generate` alone, whatever joins, leaves or is preempted."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from serving_cases import BEAMS, KINDS, PROMPTS, alone, assert_same, model, requests

import minidecode as md
from minidecode.cache import running
from minidecode.cache.pages import ROOT, NoPageError, PagePool, PageTables
from minidecode.cache.parts import Part
from minidecode.cache.running_pages import PagedRows, PagedRunningCache
from minidecode.cpu.common.tile import DOT, FLOAT
from minidecode.device.low_precision import DYNAMIC
from minidecode.serving import lanes, scheduler
from minidecode.serving.batch import Batch
from minidecode.serving.jobs import Job
from minidecode.serving.scheduler import Scheduler

ROWS = 9
LONGEST = 12  # steps of a request at most


@pytest.mark.parametrize("family", ["gpt2", "window", "bart"])
def test_each_answer_is_that_of_generate_alone(family):
    """All kinds of search in one batch; prompts are read in parts, and some requests are preempted on the way."""
    given = requests()
    busy = Scheduler(model(family), max_rows=ROWS, max_prefill_tokens=8)
    jobs, steps = [busy.submit(**one) for one in given], 0
    while not busy.is_idle:
        busy.step()
        steps += 1
        assert steps < 1000, "requests starve"
        if steps % 5 == 0 and busy.running:
            busy.preempt(busy.running[steps % len(busy.running)])
    for number, job in enumerate(jobs):
        assert job.state == "done", job.error
        assert_same(job.output, alone(family, number), model(family))
    assert busy.batch.most_rows == ROWS and sum(job.preempted for job in jobs) > 5


def check_pages(scheduler) -> None:
    """The pool's references are those of the tables, each page is free, used or cached, and tables name used pages."""
    rows, references = scheduler.batch.rows, Counter()
    pool, tables = rows.pool, rows.tables
    for table in tables.tables:
        references.update(table)
    assert [references[page] for page in range(pool.pages)] == pool.references
    assert sorted([*references, *pool._free, *pool._cached]) == list(range(pool.pages))
    assert (pool.used, pool.free, pool.cached) == (len(references), len(pool._free), len(pool._cached))
    for table, named_X, end in zip(tables.tables, tables.table_RX, rows.end_R, strict=False):
        assert named_X[: len(table)].tolist() == table and len(table) * pool.size >= end


@pytest.mark.parametrize("family", ["gpt2", "window", "bart"])
def test_rows_share_pages(family, monkeypatch):
    """Beams and samples share the pages of their prompt, and copy one before they write it; so do requests."""
    monkeypatch.setattr(PagedRows, "page", 2)
    given, plan = requests(), dict(plan="cache=paged", pages=45)
    busy = Scheduler(model(family), **plan, max_rows=ROWS, max_prefill_tokens=8)
    jobs = [busy.submit(**one) for one in given]
    while not busy.is_idle:
        busy.step()
        check_pages(busy)
    for number, job in enumerate(jobs):
        assert_same(job.output, alone(family, number), model(family))
    assert busy.batch.rows.pool.used == 0
    assert busy.batch.ops.counts()["copy_pages"].calls > 0
    assert (busy.batch.tokens_reused > 0) == (family != "bart"), "what a decoder computes depends on the source"


def test_a_prompt_goes_on_from_pages_of_earlier_requests(monkeypatch):
    """Whole pages are found, as far as the token before the last; what is behind them is read."""
    monkeypatch.setattr(PagedRows, "page", 2)
    busy = Scheduler(model(), plan="cache=paged", max_rows=ROWS)

    def found_and_read(prompt, **options):
        before = busy.batch.tokens_read
        job = busy.submit(prompt, max_new_tokens=2, **options)
        busy.run()
        assert_same(job.output, model().generate(prompt, max_new_tokens=2, **options))
        assert job.output.receipt.reused_tokens == job.reused_tokens
        return job.reused_tokens, busy.batch.tokens_read - before

    assert found_and_read("the the the thea") == (0, 5)
    assert found_and_read("the the the thea", num_beams=3) == (4, 1)  # both pages; the fifth token begins another
    assert found_and_read("the the the the") == (2, 2)  # the second page is there: its last token would not be read
    assert found_and_read("the the th otter", **KINDS["sampling"][1]) == (2, 8)  # once for three texts
    assert found_and_read("a the the thea b") == (0, 7)  # its second page is another's behind another first one
    assert busy.batch.tokens_reused == 8 and busy.batch.rows.pool.used == 0


def test_pages_that_are_cached_make_way_for_those_that_are_needed(monkeypatch):
    """Of the prompt that was used the longest ago, the last page goes first."""
    monkeypatch.setattr(PagedRows, "page", 2)
    few = Scheduler(model(), plan="cache=paged", max_rows=2, pages=8)
    found = []
    for prompt in ("the the the thea", "otter", "the the the thea", "the the th otter", "the the the thea", "otter"):
        job = few.submit(prompt, max_new_tokens=1)
        few.run()
        check_pages(few)
        found.append(job.reused_tokens)
    assert found == [0, 0, 4, 2, 4, 2]


def check_that_a_short_prompt_overtakes(**options) -> None:
    """A request that comes after one with a long prompt has its first token before that prompt is read."""
    busy = Scheduler(model(), max_prefill_tokens=4, **options)
    runs = busy.submit("a", max_new_tokens=12, min_new_tokens=12)
    busy.step()
    tokens = []
    long = busy.submit("the the th otter", max_new_tokens=2, on_token=lambda *_: tokens.append("long"))
    busy.step()
    short = busy.submit("the", max_new_tokens=2, on_token=lambda *_: tokens.append("short"))
    busy.step()
    assert set(tokens) == {"short"}, "the short prompt waited for the long one"
    busy.run()
    assert short.first_token < long.first_token
    assert busy.batch.steps <= 14, "a row that runs waited for a prompt"
    for job, prompt in (long, "the the th otter"), (short, "the"):
        assert_same(job.output, model().generate(prompt, max_new_tokens=2))
    assert runs.state == "done"


@pytest.mark.parametrize("options", [{}, {"plan": "cache=paged"}], ids=["blocks", "pages"])
def test_a_long_prompt_is_read_in_parts_and_keeps_no_other_waiting(options):
    check_that_a_short_prompt_overtakes(**options)


@pytest.mark.parametrize("share", [lambda left, tokens: left, lambda left, tokens: shares_in_turn(left, tokens)])
def test_prompts_that_are_read_whole_or_one_after_the_other_are_found(share, monkeypatch):
    monkeypatch.setattr(scheduler, "shared_out", share)
    with pytest.raises(AssertionError, match="waited"):
        check_that_a_short_prompt_overtakes()


def shares_in_turn(left, tokens):
    """The oldest text gets all that it can use."""
    shares = []
    for length in left:
        shares.append(min(length, tokens - sum(shares)))
    return shares


def test_how_the_tokens_of_a_step_are_shared_out():
    """None is left over, none is given twice, and the oldest text never waits."""
    assert scheduler.shared_out([100], 512) == [100]
    assert scheduler.shared_out([1000, 7], 512) == [505, 7]
    assert scheduler.shared_out([1000, 900, 800], 100) == [50, 0, 50]
    assert scheduler.shared_out([0, 5], 4) == [0, 4]
    assert scheduler.shared_out([3, 5], 1) == [1, 0]
    rng = np.random.default_rng(0)
    for _ in range(200):
        left, tokens = rng.integers(0, 40, rng.integers(1, 8)).tolist(), int(rng.integers(1, 60))
        shares = scheduler.shared_out(left, tokens)
        assert all(0 <= share <= most for share, most in zip(shares, left, strict=True))
        assert sum(shares) == min(sum(left), tokens) and shares[0] >= min(left[0], tokens // 2)


@pytest.mark.skipif(
    FLOAT is None or DOT is None or DOT.x_bits < DYNAMIC["int8_dynamic"], reason="no tiles, or no dot product of 8 bits"
)
@pytest.mark.parametrize("cache", ["preallocated", "paged"])
def test_parts_change_no_bit_where_sums_are_of_integers(cache):
    """int8_dynamic: a prompt that is read in parts, whole, or from pages on: the same log-probabilities."""
    loaded, found = md.load("tiny-gpt2", dtype="int8_dynamic", plan="fast"), []
    text = "Fellow citizens, I am again called upon by the voice of my country to execute the functions"
    for tokens in (1, 5, 512):
        busy = Scheduler(loaded, plan=f"fast,cache={cache}", max_prefill_tokens=tokens)
        for _ in range(2):
            job = busy.submit(text, max_new_tokens=6, logprobs=2)
            busy.run()
            found.append([job.output.token_ids[0].tolist(), *(a.tolist() for a in job.output.token_logprobs)])
    assert all(answer == found[0] for answer in found)


def test_where_pages_run_out_the_newest_request_is_preempted(monkeypatch):
    monkeypatch.setattr(PagedRows, "page", 2)
    prompts = "the", "a b", "otter", "the the th", "the", "a b"
    given = [dict(prompt=prompt, max_new_tokens=12, min_new_tokens=12, **KINDS["sampling"][0], seed=i)
             for i, prompt in enumerate(prompts)]  # fmt: skip
    few = Scheduler(model(), plan="cache=paged", max_rows=ROWS, pages=24)
    jobs = [few.submit(**one) for one in given]
    while not few.is_idle:
        few.step()
        check_pages(few)
    assert jobs[0].preempted == 0 and sum(job.preempted for job in jobs) > 2
    assert [job.ended for job in jobs] == sorted(job.ended for job in jobs)
    for job, want in zip(jobs, scheduler.one_by_one(model(), given), strict=True):
        assert_same(job.output, want)
    with pytest.raises(md.MemoryBudgetError, match="3 rows of 15 tokens never find pages: raise pages"):
        few.submit("the", num_beams=3, max_new_tokens=14)
    with pytest.raises(md.OptionError, match="pages changes nothing without cache=paged"):
        Scheduler(model(), pages=3)


def test_bundled_models_answer_as_alone():
    """Multi-query attention, and a model that has learnt something."""
    for name in ("tiny-gpt2-mqa", "tiny-bart"):
        loaded = md.load(name, plan="numpy")
        texts = ("The war is over", 1), ("We, the people of this land,", 3), ("Peace", 2)
        given = [dict(prompt=text, num_beams=beams, max_new_tokens=6) for text, beams in texts]
        shared = Scheduler(loaded, max_rows=8)
        jobs = [shared.submit(**one) for one in given]
        shared.run()
        for job, want in zip(jobs, scheduler.one_by_one(loaded, given), strict=True):
            assert_same(job.output, want, loaded)


class Schedules(RuleBasedStateMachine):
    """Requests come, join, are preempted, cancelled and answered in any order."""

    family = "gpt2"

    def __init__(self):
        super().__init__()
        self.scheduler, self.jobs = self.make(), []

    def make(self):
        return Scheduler(model(self.family), max_rows=ROWS, max_prefill_tokens=7)

    @rule(number=st.integers(0, len(requests()) - 1))
    def submit(self, number):
        self.jobs.append((self.scheduler.submit(**requests()[number]), number))

    @rule()
    def step(self):
        before, ran = [job for job, _ in self.jobs if not job.is_over], list(self.scheduler.running)
        self.scheduler.step()
        if before and all(job.preempted == 0 for job in before):
            assert before[0].is_over or before[0].runs, "the oldest request must not wait"
        joined = [job.number for job in self.scheduler.running if job not in ran]
        waiting = [job.number for job in self.scheduler.waiting]
        assert not joined or not waiting or max(joined) < min(waiting), "a request was overtaken"

    @precondition(lambda self: self.scheduler.running)
    @rule(nth=st.integers(0, 9))
    def preempt(self, nth):
        self.scheduler.preempt(self.scheduler.running[nth % len(self.scheduler.running)])

    @precondition(lambda self: any(not job.is_over for job, _ in self.jobs))
    @rule(nth=st.integers(0, 9))
    def cancel(self, nth):
        alive = [job for job, _ in self.jobs if not job.is_over]
        self.scheduler.cancel(alive[nth % len(alive)])
        assert alive[nth % len(alive)].state == "cancelled"

    @invariant()
    def rows_are_those_of_the_running_requests(self):
        here = self.scheduler
        runs_R = np.sort(np.concatenate([np.arange(0), *(lane.row_R for lane in here.lanes)]))
        rows = [*runs_R.tolist(), *(r for reading in here.readings for r in reading.row_X.tolist())]
        assert rows == list(range(here.batch.rows.number))
        jobs = {job.number for lane in here.lanes for job in lane.jobs} | {part.job.number for part in here.readings}
        assert jobs == {job.number for job in here.running}
        assert all(job.is_over or job.runs or job in here.waiting for job, _ in self.jobs)

    @invariant()
    def answers_are_those_of_generate_alone(self):
        for job, number in self.jobs:
            assert job.error is None, job.error
            if job.state == "done":
                assert_same(job.output, alone(self.family, number), model(self.family))
        self.jobs = [(job, number) for job, number in self.jobs if not job.is_over]

    def teardown(self):
        jobs, steps = list(self.jobs), 0
        while not self.scheduler.is_idle:
            self.scheduler.step()
            steps += 1
            assert steps <= 3 * LONGEST * (len(jobs) + 1), "requests starve"
            if steps % LONGEST == 0 and self.scheduler.running:
                self.scheduler.preempt(self.scheduler.running[steps % len(self.scheduler.running)])
        self.answers_are_those_of_generate_alone()
        here = self.scheduler
        assert not self.jobs and not here.lanes and here.batch.rows.number == 0 and here.bytes == 0


def run(machine: type = Schedules, examples: int = 70, seed: int = 0) -> None:
    """So many random schedules, without making a failure small."""
    phases = [Phase.generate]
    made = settings(max_examples=examples, stateful_step_count=25, deadline=None, database=None, phases=phases,
                    derandomize=seed == 0, suppress_health_check=list(HealthCheck))  # fmt: skip
    run_state_machine_as_test(machine, settings=made)


def test_random_schedules():
    run()


def test_what_is_refused():
    """Each error names the cause and the remedy, and leaves nothing behind."""
    busy = Scheduler(model(), max_rows=2, max_waiting=1)
    with pytest.raises(md.OptionError, match="3 rows never fits: there are 2"):
        busy.submit("the", num_beams=3)
    with pytest.raises(md.OptionError, match="guidance_scale"):
        busy.submit("the", guidance_scale=2.0)
    with pytest.raises(md.InputError, match="20"):
        busy.submit("the " * 30)
    busy.submit("the", max_new_tokens=2)
    with pytest.raises(md.QueueFullError, match="1 of at most 1 requests wait: try again later"):
        busy.submit("the", max_new_tokens=2)
    busy.run()
    busy.submit("the", max_new_tokens=2)
    for family in ("gpt2", "bart"):
        with pytest.raises(
            md.MemoryBudgetError, match=r"no request fits: the smallest may take .* and 10 bytes may be"
        ):
            Scheduler(model(family), memory_budget=10)
    just = Scheduler(model(), memory_budget=Scheduler(model()).submit(input_ids=[5], max_new_tokens=1).bytes)
    with pytest.raises(md.MemoryBudgetError, match="may take"):
        just.submit("the", max_new_tokens=9, num_beams=2)
    assert just.submit(input_ids=[5], max_new_tokens=1).state == "waiting"
    with pytest.raises(md.OptionError, match="cache=el has no effect in a running batch"):
        Scheduler(model(), plan="cache=el")


def test_one_request_in_trouble_leaves_its_neighbours_alone():
    """Where one request's options forbid every token, the others of its step have their answers."""
    busy, V = Scheduler(model(), max_rows=ROWS), model().config.vocab_size
    good = busy.submit(**requests()[0])
    bad = [busy.submit("the", max_new_tokens=5, suppress_tokens=list(range(V)), **beams) for beams in ({}, BEAMS)]

    def raises(scores_RV, rows):
        raise ZeroDivisionError

    bad.append(busy.submit("the", max_new_tokens=5, logits_processor=raises))
    bad.append(busy.submit("the", max_new_tokens=5, on_token=raises))  # shares the lane of the good one
    busy.run()
    assert [job.state for job in bad] == ["failed"] * 4 and busy.batch.rows.number == 0
    assert_same(good.output, alone("gpt2", 0))


ENDS = dict(min_new_tokens=4, eos_token_id=[5], sequence_bias={(5,): 99.0})  # each text after four tokens


@pytest.mark.parametrize("family", ["gpt2", "bart"])
@pytest.mark.parametrize("options", [
    ENDS, dict(exponential_decay_length_penalty=(2, 1.5)), dict(encoder_no_repeat_ngram_size=2),
    dict(encoder_repetition_penalty=1.5), dict(BEAMS, encoder_repetition_penalty=1.5),
])  # fmt: skip
def test_texts_of_a_lane_are_at_steps_of_their_own_to_its_end(family, options):
    """These options go by the step, or read a source: of the last request that leaves a lane there is none."""
    given = [dict(options, prompt=prompt, max_new_tokens=5 + i) for i, prompt in enumerate(PROMPTS)]
    busy, jobs = Scheduler(model(family), max_rows=ROWS), []
    for each in given:
        jobs.append(busy.submit(**each))
        busy.step()
    busy.run()
    for job, want in zip(jobs, scheduler.one_by_one(model(family), given), strict=True):
        assert_same(job.answer, want, model(family))


@pytest.mark.parametrize("cache", ["preallocated", "paged"])
def test_an_on_token_may_cancel_any_request(cache):
    """No row moves while tokens are chosen, so that all other requests get those of their own rows."""
    busy, told = Scheduler(model(), plan=f"numpy,cache={cache}", max_rows=ROWS), []
    each = requests()[:7]  # in five lanes

    def cancels(text, token, logprobs):
        told.append(token)
        for job in (others[0], others[-1], first)[: len(told)]:
            busy.cancel(job)

    first = busy.submit(**dict(each[0], max_new_tokens=9), on_token=cancels)
    others = [busy.submit(**given) for given in each[1:]]
    busy.run()
    ended = [job for job in (first, *others) if job.state == "cancelled"]
    assert ended == [first, others[0], others[-1]] and len(told) == 3 and busy.batch.rows.number == 0
    for number, job in enumerate(others[1:-1], 2):
        assert_same(job.output, alone("gpt2", number))


def test_what_fails_in_an_answer_or_while_prompts_are_read_loses_no_request(monkeypatch):
    """An answer that cannot be made fails alone; requests that were being read are among those that run."""
    busy = Scheduler(model(), max_rows=ROWS)
    bad = busy.submit("the", max_new_tokens=2, num_beams=2, logprobs=1)
    good = busy.submit("the", max_new_tokens=2, num_beams=2)

    def raises(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("minidecode.serving.scheduler.score_new_tokens", raises)
        busy.run()
    assert (bad.state, good.state) == ("failed", "done") and good.output is not None
    read = busy.submit("the", max_new_tokens=2)
    monkeypatch.setattr(busy.batch, "read", raises)
    with pytest.raises(MemoryError):
        busy.step()
    assert busy.running == [read] and not busy.waiting


def test_an_on_end_that_raises_keeps_no_other_request_from_its_answer():
    busy, told = Scheduler(model()), []

    def raises(job):
        raise ValueError("of the caller's function")

    busy.submit("the", max_new_tokens=2, on_end=raises)
    good = busy.submit("the", max_new_tokens=2, on_end=told.append)
    with pytest.raises(ValueError, match="of the caller's function"):
        busy.run()
    assert told == [good] and good.output is not None and busy.is_idle


def test_memory_lets_requests_in_one_after_the_other():
    given = dict(prompt="the", max_new_tokens=5)
    free = Scheduler(model(), memory_budget=None)
    each = free.submit(**given).bytes
    tight = Scheduler(model(), memory_budget=int(2.5 * each))
    jobs = [tight.submit(**given) for _ in range(5)]
    tight.step()
    assert [job.state for job in jobs].count("running") == 2
    tight.run()
    assert tight.batch.most_rows == 2 and all(job.state == "done" for job in jobs)


def test_requests_join_in_the_order_of_their_arrival():
    """Also one that was preempted: it goes before all that came after it."""
    busy = Scheduler(model(), max_rows=4)
    jobs = [busy.submit("the", num_beams=2, max_new_tokens=9) for _ in range(5)]
    busy.step()
    assert [job.runs for job in jobs] == [True, True, False, False, False]
    busy.preempt(jobs[1])
    busy.step()
    assert [job.runs for job in jobs] == [True, True, False, False, False]
    busy.run()
    assert [job.ended for job in jobs] == sorted(job.ended for job in jobs)


@pytest.mark.parametrize("victim", [0, 1])
def test_preempting_within_a_step_is_refused_and_harms_no_other(victim):
    """Rows would move while tokens are chosen for them."""
    busy, jobs = Scheduler(model()), []

    def preempts(text, token, logprob):
        if len(jobs) == 2 and all(job.runs for job in jobs):
            busy.preempt(jobs[victim])

    given = dict(prompt="the", max_new_tokens=6, min_new_tokens=6)
    jobs += [busy.submit(**given, on_token=preempts), busy.submit(**given)]
    for _ in range(20):
        busy.step()
    assert jobs[0].state == "failed" and "preempted between two steps" in str(jobs[0].error)
    assert_same(jobs[1].output, scheduler.one_by_one(model(), [given])[0])


@pytest.mark.parametrize("options", [dict(BEAMS, no_repeat_ngram_size=2), dict(KINDS["sampling"][1], logprobs=2)])
def test_a_request_that_is_preempted_after_each_step_goes_on(options):
    """Beams from their parents; samples with their draws and log-probabilities."""
    given = dict(prompt="the the th otter", max_new_tokens=9, min_new_tokens=9, **options)
    busy = Scheduler(model())
    job = busy.submit(**given)
    while not job.is_over:
        busy.step()
        if job.runs:
            busy.preempt(job)
    assert job.preempted == 7  # the first step has two tokens
    assert_same(job.output, scheduler.one_by_one(model(), [given])[0])


def test_a_short_request_behind_a_long_one_ends_first():
    busy = Scheduler(model())
    long, short = busy.submit("the", max_new_tokens=12, min_new_tokens=12), busy.submit("a b", max_new_tokens=2)
    busy.run()
    assert short.ended < long.ended


class InPages(Schedules):
    """In small pages, of which there are few."""

    def make(self):
        return Scheduler(model(self.family), plan="cache=paged", max_rows=ROWS, max_prefill_tokens=7, pages=45)

    @invariant()
    def no_page_is_lost(self):
        check_pages(self.scheduler)

    def teardown(self):
        super().teardown()
        pool = self.scheduler.batch.rows.pool
        assert pool.used == 0 and pool.free + pool.cached == pool.pages


def test_random_schedules_in_pages(monkeypatch):
    monkeypatch.setattr(PagedRows, "page", 2)
    run(InPages, 40)


def test_random_schedules_of_sources():
    class OfSources(Schedules):
        family = "bart"

    run(OfSources, 30)


# ---- known mistakes ----------------------------------------------------------------------------------------------


def draws_keyed_by_slot(patch):
    def by_row(parts):
        found = joined(parts)
        if found is not None:
            found.keys_R2 = np.arange(2 * len(found.keys_R2), dtype=np.uint32).reshape(-1, 2)
        return found

    joined = lanes._joined_draws
    patch.setattr(lanes, "_joined_draws", by_row)


def draws_begin_anew_after_preemption(patch):
    def begun_anew(self, job):
        preempt(self, job)
        lane = job.lane
        draws = None if lane is None else lane.texts.draws if isinstance(lane, lanes.TextLane) else lane.state.draws
        if draws is not None:
            draws.step_R[...] = 0

    preempt = Scheduler.preempt
    patch.setattr(Scheduler, "preempt", begun_anew)


def parents_followed_twice_after_preemption(patch):
    patch.setattr(lanes.BeamLane, "forget_moves", lambda self: None)


def log_probabilities_lost_by_preemption(patch):
    def without(self, job):
        preempt(self, job)
        job.noted = {}

    preempt = Scheduler.preempt
    patch.setattr(Scheduler, "preempt", without)


def a_token_is_not_read_after_preemption(patch):
    def shorter(self):
        return [text[:-1] for text in written(self)]

    written = lanes.TextLane.written_texts
    patch.setattr(lanes.TextLane, "written_texts", shorter)


def rows_that_leave_are_not_closed_up(patch):
    patch.setattr(running.Blocks, "keep_only", lambda self, stays_R, written: None)


def newest_position_is_not_moved(patch):
    def less(self, stays_R, written):
        leave(self, stays_R, written - 1)

    leave = running.Blocks.keep_only
    patch.setattr(running.Blocks, "keep_only", less)


def beams_move_in_the_wrong_rows(patch):
    def one_off(self, ops, rows, parent_X):
        reorder(self, ops, slice(0, len(parent_X)), parent_X)

    reorder = running.RunningCache.reorder
    patch.setattr(running.RunningCache, "reorder", one_off)


def options_of_a_neighbour(patch):
    patch.setattr(scheduler, "lane_key", lambda options: (options.num_beams, options.do_sample))


def steps_of_a_neighbour(patch):
    def with_a_step(self, request, step):
        return rows(self, request, int((self.length_R - self.begins_R)[0]))

    rows = lanes.Texts.rows
    patch.setattr(lanes.Texts, "rows", with_a_step)


def cancelled_rows_stay(patch):
    patch.setattr(Scheduler, "cancel", lambda self, job: job.end("cancelled"))


def the_newest_goes_first(patch):
    def reversed_queue(self):
        self.waiting.sort(key=lambda job: -job.number)
        return admit(self)

    admit = Scheduler._admit_waiting
    patch.setattr(Scheduler, "_admit_waiting", reversed_queue)


def preempted_requests_go_to_the_end(patch):
    def to_the_end(self, job):
        preempt(self, job)
        self.waiting.remove(job)
        self.waiting.append(job)

    preempt = Scheduler.preempt
    patch.setattr(Scheduler, "preempt", to_the_end)


def samples_of_a_prompt_are_one(patch):
    def first_of_all(self, text, ids, score):
        end_text(self, text, ids if text == 0 or 0 not in self.texts else self.texts[0][0], score)

    end_text = Job.end_text
    patch.setattr(Job, "end_text", first_of_all)


def shared_pages_are_written(patch):
    patch.setattr(PagePool, "make_writable", lambda self, table, nth: None)


def a_stale_table_after_preemption(patch):
    patch.setattr(PageTables, "set_table", lambda self, r, table: self.tables.__setitem__(r, table))


def pages_are_copied_too_late(patch):
    def after(self, ops, qkv_RX, h_RD):
        copies = self.rows.source_R, self.rows.target_R
        self.rows.source_R = self.rows.target_R = np.zeros(0, np.int64)
        q_RHK = append(self, ops, qkv_RX, h_RD)
        self.rows.source_R, self.rows.target_R = copies
        for x_XGMX in (self.k_XGMK, self.v_XGMU):
            ops.copy_pages(x_XGMX, *copies)
        return q_RHK

    append = PagedRunningCache.append
    patch.setattr(PagedRunningCache, "append", after)


def a_page_too_late_at_its_edge(patch):
    def grow(self, table, positions):
        grown(self, table, positions - 1)
        if len(table) * self.size < positions:
            table.append(table[-1])
            self.references[table[-1]] += 1

    grown = PagePool.grow
    patch.setattr(PagePool, "grow", grow)


def pages_of_rows_that_leave_are_kept(patch):
    def keep(self, rows):
        self.tables = [self.tables[r] for r in rows]
        self.room_RX[: len(rows)] = self.room_RX[list(rows)]

    patch.setattr(PageTables, "keep_only", keep)


def pages_named_without_those_before_them(patch):
    def fork_prefix(self, tokens):
        table = []
        for first in range(0, (len(tokens) - 1) // self.size * self.size, self.size):
            name = ROOT, tuple(map(int, tokens[first : first + self.size]))
            if name not in self._named:
                break
            table.append(self._named[name])
        return self.fork(table)

    publish = PagePool.publish
    patch.setattr(PagePool, "fork_prefix", fork_prefix)
    patch.setattr(PagePool, "publish", lambda self, page, parent, tokens: publish(self, page, ROOT, tokens))


def last_token_is_not_read_again(patch):
    fork_prefix = PagePool.fork_prefix
    patch.setattr(PagePool, "fork_prefix", lambda self, tokens: fork_prefix(self, [*tokens, 0]))


def pages_are_published_before_they_are_computed(patch):
    def begin(self, texts, rows, source_length=0):
        begun = taken(self, texts, rows, source_length)
        for row_X, ids in zip(begun or (), texts, strict=False):
            end_R = self.end_R.copy()
            self.note_read(Part(row_X=row_X, ids=ids, last=len(ids)))
            self.end_R[...] = end_R
        return begun

    taken = PagedRows.add_rows
    patch.setattr(PagedRows, "add_rows", begin)


def a_page_is_published_a_token_too_early(patch):
    def note_read(self, part):
        read(self, part)
        if part.last % self.page == self.page - 1 and not self.source_positions:
            table, nth = [ROOT, *self.tables.tables[part.row_X[0]]], part.last // self.page
            self.pool.publish(table[nth + 1], table[nth], [*part.ids[nth * self.page : part.last], 259])

    read = PagedRows.note_read
    patch.setattr(PagedRows, "note_read", note_read)


def found_pages_do_not_get_into_the_table(patch):
    def skip_known_positions(self, part):
        published = self._fork_published_pages(part.ids)
        part.first = len(published) * self.page
        self.pool.release(published)

    patch.setattr(PagedRows, "skip_known_positions", skip_known_positions)


def replaced_pages_stay_in_the_table(patch):
    def skip_known_positions(self, part):
        before = [list(self.tables.tables[r]) for r in part.row_X]
        find(self, part)
        for r, table in zip(part.row_X, before, strict=True):
            self.tables.room_RX[r, : len(table)] = table

    find = PagedRows.skip_known_positions
    patch.setattr(PagedRows, "skip_known_positions", skip_known_positions)


OF_PAGES = [
    shared_pages_are_written, a_stale_table_after_preemption, pages_are_copied_too_late, a_page_too_late_at_its_edge,
    pages_of_rows_that_leave_are_kept, pages_named_without_those_before_them, last_token_is_not_read_again,
    pages_are_published_before_they_are_computed, a_page_is_published_a_token_too_early,
    found_pages_do_not_get_into_the_table, replaced_pages_stay_in_the_table,
]  # fmt: skip


@pytest.mark.parametrize("mistake", OF_PAGES, ids=lambda mistake: mistake.__name__)
def test_known_mistakes_with_pages_are_found(mistake, monkeypatch):
    for number in range(len(requests())):  # before anything is wrong
        alone("gpt2", number)
    monkeypatch.setattr(PagedRows, "page", 2)
    mistake(monkeypatch)
    with pytest.raises((AssertionError, ValueError, IndexError, KeyError, TypeError, NoPageError)):
        run(InPages, 40)


def the_last_token_of_a_text_is_not_read(patch):
    def tokens_left(self):
        return max(0, len(self.ids) - self.first - (self.first > 0))

    patch.setattr(scheduler.Reading, "tokens_left", property(tokens_left))


def a_part_begins_a_token_late(patch):
    def read(self, parts, sources):
        for part in parts:
            part.first = min(part.first + (part.first > 0), part.last - 1)
        return whole(self, parts, sources)

    whole = Batch.read
    patch.setattr(Batch, "read", read)


def a_part_finds_nothing_of_earlier_ones(patch):
    earlier = running.RunningCache.keys_and_values_before
    patch.setattr(
        running.RunningCache, "keys_and_values_before", lambda self, part: tuple(0 * x for x in earlier(self, part))
    )


def positions_begin_anew_with_each_part(patch):
    def read(self, parts, sources):
        def forward(w, ids_R, pos_R, *others):
            anew = [np.arange(part.last - part.first) for part in parts]
            return network.forward(w, ids_R, np.concatenate(anew), *others)

        network = self.model.network
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(self.model, "network", SimpleNamespace(**vars(network) | {"forward": forward}))
            return whole(self, parts, sources)

    whole = Batch.read
    patch.setattr(Batch, "read", read)


def texts_that_are_read_do_not_move_with_their_rows(patch):
    def clear(self):
        before = [reading.row_X for reading in self.readings if reading.job.runs]
        cleared(self)
        for reading, row_X in zip(self.readings, before, strict=True):
            reading.row_X = np.minimum(row_X, self.batch.rows.number - 1)

    cleared = Scheduler._clear_rows
    patch.setattr(Scheduler, "_clear_rows", clear)


MISTAKES = [
    draws_keyed_by_slot, draws_begin_anew_after_preemption, parents_followed_twice_after_preemption,
    log_probabilities_lost_by_preemption, a_token_is_not_read_after_preemption, rows_that_leave_are_not_closed_up,
    newest_position_is_not_moved, beams_move_in_the_wrong_rows, options_of_a_neighbour, steps_of_a_neighbour,
    cancelled_rows_stay, the_newest_goes_first, preempted_requests_go_to_the_end, samples_of_a_prompt_are_one,
    the_last_token_of_a_text_is_not_read, a_part_begins_a_token_late, a_part_finds_nothing_of_earlier_ones,
    positions_begin_anew_with_each_part, texts_that_are_read_do_not_move_with_their_rows,
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_known_mistakes_are_found(mistake, monkeypatch):
    for number in range(len(requests())):  # before anything is wrong
        alone("gpt2", number)
    mistake(monkeypatch)
    with pytest.raises((AssertionError, ValueError, IndexError, KeyError, StopIteration)):
        test_requests_join_in_the_order_of_their_arrival()
        test_texts_of_a_lane_are_at_steps_of_their_own_to_its_end("gpt2", ENDS)
        for options in dict(BEAMS, no_repeat_ngram_size=2), dict(KINDS["sampling"][1], logprobs=2):
            test_a_request_that_is_preempted_after_each_step_goes_on(options)
        test_each_answer_is_that_of_generate_alone("gpt2")
        run()
