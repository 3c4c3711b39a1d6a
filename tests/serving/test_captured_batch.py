"""Steps of a running batch that are captured: requests come and go, and what was captured still runs.

Which requests there are is what arrays hold, and not where they lie. So a captured step knows no request.
"""

import copy
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from serving_cases import PROMPTS, alone, assert_same, model, requests

import minidecode as md
from minidecode.cache.running import RunningRows
from minidecode.cpu import linear
from minidecode.runtime.cpu_graphs import MOST_ROWS, CapturedByRows
from minidecode.runtime.footprint import captured_rows_within
from minidecode.serving import plans
from minidecode.serving.scheduler import Scheduler

ROWS = 9


@pytest.fixture(autouse=True)
def compiled_products(monkeypatch):
    """Where weights are in no panels, products of small ones are the BLAS's, and no step is captured."""
    monkeypatch.setattr(linear, "SMALL", 0)


def run_all(family: str, cache: str) -> Scheduler:
    """All kinds of search at once, with preemptions; each answer is compared with that of `generate` alone."""
    pages = 45 if cache == "paged" else None
    busy = Scheduler(
        model(family, "fast"), plan=f"fast,cache={cache}", max_rows=ROWS, max_prefill_tokens=8, pages=pages
    )
    jobs, steps = [busy.submit(**one) for one in requests()], 0
    while not busy.is_idle:
        busy.step()
        steps += 1
        if steps % 9 == 0 and busy.running:
            busy.preempt(busy.running[steps % len(busy.running)])
    for number, job in enumerate(jobs):
        assert job.state == "done", job.error
        assert_same(job.output, alone(family, number), model(family))
    return busy


@pytest.mark.parametrize("family", ["gpt2", "window", "bart"])
@pytest.mark.parametrize("cache", ["preallocated", "paged"])
def test_each_answer_is_that_of_generate_alone(family, cache):
    graphs = run_all(family, cache).batch.captured.counts
    assert graphs.launches > 2 * graphs.captured > 0 and not graphs.why_not


@pytest.mark.parametrize("cache", ["preallocated", "paged"])
def test_one_captured_step_survives_a_thousand_joins(cache):
    """Two rows at a time, of prompts that are 4 to 10 tokens long: one of them leaves, and the next one joins."""
    busy = Scheduler(model("gpt2", "fast"), plan=f"fast,cache={cache}", max_rows=2)
    jobs = [busy.submit(PROMPTS[i % 4], max_new_tokens=3 + i % 3) for i in range(1000)]
    busy.run()
    assert busy.batch.captured.counts.captured <= 2, "one for one row, one for two"
    assert busy.batch.captured.counts.launches >= busy.batch.steps - 4 >= 1000
    for i in range(12):
        want = model().generate(PROMPTS[i % 4], max_new_tokens=3 + i % 3)
        assert all(np.array_equal(job.output.token_ids[0], want.token_ids[0]) for job in jobs[i::12])


def test_more_rows_are_not_captured_and_say_why():
    busy = Scheduler(model("gpt2", "fast"), plan="fast", max_rows=MOST_ROWS + 1)
    for i in range(MOST_ROWS + 1):
        busy.submit(PROMPTS[i % 4], max_new_tokens=4)
    busy.run()
    assert busy.batch.captured.counts.captured == 0 and f"{MOST_ROWS + 1} rows" in busy.batch.captured.counts.why_not


def held_by_captured_steps(family: str) -> tuple[int, int]:
    """(bytes that captured steps of 1 to 6 rows keep, as tracemalloc sees NumPy's; what is counted for them)."""
    loaded = md.load(family, plan="fast") if family == "tiny-gpt2" else model(family, "fast")
    busy, held = Scheduler(loaded, plan="fast", max_rows=6), 0
    for captures in (False, True):  # what is made once is there then
        tracemalloc.start()
        try:
            for rows in range(6, 0, -1):
                jobs = [busy.submit(PROMPTS[i % 4], max_new_tokens=5, min_new_tokens=5) for i in range(rows)]
                busy.run()
                assert all(job.state == "done" for job in jobs)
            del jobs
            if captures:
                before = tracemalloc.get_traced_memory()[0]
                busy.batch.captured.steps.clear()
                held = before - tracemalloc.get_traced_memory()[0]
            else:
                busy.batch.captured.steps.clear()
        finally:
            tracemalloc.stop()
    return held, captured_rows_within(loaded, busy.plan, 6, None)[1]


@pytest.mark.parametrize("family", ["gpt2", "bart", "tiny-gpt2"])
def test_the_memory_of_captured_steps_is_counted(family):
    held, counted = held_by_captured_steps(family)
    assert counted / 4 < held <= counted


def test_captured_steps_take_a_quarter_of_the_budget_and_the_rest_is_for_requests(monkeypatch):
    nothing = SimpleNamespace(total=0)  # whether requests fit is another question
    monkeypatch.setattr(plans, "footprint", lambda *_: nothing)
    loaded = model("gpt2", "fast")
    three = captured_rows_within(loaded, Scheduler(loaded, plan="fast", max_rows=1).plan, 3, None)[1]
    budget = 4 * three + 7
    busy = Scheduler(loaded, plan="fast", max_rows=4, memory_budget=budget)
    assert busy.memory_budget == budget - three
    busy.memory_budget = None
    jobs = [busy.submit(PROMPTS[i], max_new_tokens=4 + 3 * i) for i in range(4)]
    busy.run()
    assert all(job.state == "done" for job in jobs)
    assert busy.batch.captured.counts.captured == 3 and busy.batch.captured.counts.launches
    assert "steps of more than 3 rows would take more of the memory budget" in busy.batch.captured.counts.why_not
    for plan, rows in (("numpy", 4), ("fast,graphs=off", 4)):
        assert Scheduler(loaded, plan=plan, max_rows=rows, memory_budget=budget).memory_budget == budget


def test_steps_are_captured_anew_when_texts_are_far_longer():
    """Whether threads share attention is part of what is captured."""
    captured = CapturedByRows()
    at = [captured.step_for_rows(2, positions) for positions in (8, 10, 32, 34, 120, 8)]
    assert at[0] is at[1] is at[2] and at[3] is at[4]
    assert at[2] is not at[3] and at[4] is not at[5]


def test_a_plan_without_captured_steps_captures_none():
    busy = Scheduler(model("gpt2", "fast"), plan="fast,graphs=off", max_rows=2)
    busy.submit(PROMPTS[0], max_new_tokens=5)
    busy.run()
    assert busy.batch.steps == 4 and busy.batch.captured.counts.launches == busy.batch.captured.counts.captured == 0


def lie_elsewhere_in_each_step(name):
    """The array of last positions, of lengths or of window begins is another one in each step."""

    def mistake(patch):
        step = RunningRows.begin_step

        def elsewhere(self, end_R):
            setattr(self, name, copy.deepcopy(getattr(self, name)))
            step(self, end_R)

        patch.setattr(RunningRows, "begin_step", elsewhere)

    return mistake


def a_step_of_other_rows_is_launched(patch):
    step_of = CapturedByRows.step_for_rows
    patch.setattr(CapturedByRows, "step_for_rows", lambda self, rows, n: step_of(self, rows // 2 * 2 or 1, n))


@pytest.mark.parametrize(("family", "mistake"), [
    ("gpt2", lie_elsewhere_in_each_step("last_R")), ("gpt2", lie_elsewhere_in_each_step("end_R")),
    ("window", lie_elsewhere_in_each_step("begins")), ("gpt2", a_step_of_other_rows_is_launched),
], ids=["last_R", "end_R", "begins", "other_rows"])  # fmt: skip
def test_known_mistakes_are_found(family, mistake, monkeypatch):
    for number in range(len(requests())):  # before anything is wrong
        alone(family, number)
    mistake(monkeypatch)
    with pytest.raises((AssertionError, ValueError, IndexError)):
        run_all(family, "preallocated")
