"""Races that an atomic or a fence hides under one schedule are found under another, whatever the seed."""

from __future__ import annotations

import numpy as np
import pytest
from kernels_correct import CASES as CORRECT
from numba import cuda

import minidecode as md
from minidecode.emulator import schedules, threads
from minidecode.emulator.traffic import Traffic


@cuda.jit
def counts_then_reads(count, y):
    cuda.atomic.add(count, 0, 1)
    if cuda.blockIdx.x == 0:
        y[0] = count[0]


@cuda.jit
def flag_that_no_thread_reads(data, flag, y):
    if cuda.threadIdx.x == 0:
        data[0] = 42
        cuda.threadfence()
        cuda.atomic.add(flag, 0, 1)
    else:
        cuda.atomic.add(flag, 0, 1)
        cuda.threadfence()
        y[0] = data[0]


@cuda.jit
def flag_that_no_block_reads(data, flag, y):
    if cuda.blockIdx.x == 0:
        data[0] = 42
        cuda.threadfence()
        cuda.atomic.add(flag, 0, 1)
    else:
        cuda.atomic.add(flag, 0, 1)
        cuda.threadfence()
        y[0] = data[0]


HIDDEN = [(counts_then_reads, (4, 1), 2), (flag_that_no_thread_reads, (1, 2), 3), (flag_that_no_block_reads, (2, 1), 3)]


def zeros(count):
    return [np.zeros(1, np.int32) for _ in range(count)]


@pytest.mark.parametrize(("kernel", "launch", "count"), HIDDEN, ids=lambda k: getattr(k, "__name__", None))
def test_a_race_hidden_by_an_atomic_is_found_under_every_seed(kernel, launch, count):
    by_the_first = set()
    for seed in range(8):
        once, first = zeros(count), zeros(count)
        run = md.emulate(kernel, seed=seed)[launch](*first)
        assert [e.kind for e in run.errors] == ["race"], (seed, run.verdict)
        by_the_first.add(run.schedules == 1)
        alone = md.emulate(kernel, seed=seed, schedules=1)[launch](*once)
        assert alone.ok == (run.schedules > 1)
        assert once == first, "the arrays hold the results of the first schedule"
    assert by_the_first == {True, False}, "some seeds hide it"


def test_the_verdict_says_which_schedule_found_it():
    runs = [md.emulate(flag_that_no_block_reads, seed=seed)[2, 1](*zeros(3)) for seed in range(8)]
    later = next(run for run in runs if run.schedules > 1)
    assert later.schedule == "backward"
    assert "Schedule 3 of 12 found it (backward); those before were clean." in later.verdict
    assert "Schedule 3 of 12" in later._repr_html_() and "Schedule 3 of 12" in str(later)
    assert later.to_svg().count("<title>") > 1


@pytest.mark.parametrize("name", ["last_block_done", "a_lock", "a_barrier_of_the_grid"])
def test_a_right_kernel_is_clean_under_12_schedules(name):
    case = next(c for c in CORRECT if c.name == name)
    run = md.emulate(case.kernel, seed=5)[case.launch](*case.arguments())
    assert run.verdict.startswith("clean under 12 schedules") and run.schedules == 12
    assert "clean under 12 schedules" in run._repr_html_()
    ordered = next(c for c in CORRECT if c.name == "tree")
    assert md.emulate(ordered.kernel)[ordered.launch](*ordered.arguments()).schedules == 1, "barriers alone"


def test_a_long_launch_gets_fewer_schedules(monkeypatch):
    monkeypatch.setattr(schedules, "ALWAYS", 0.0)
    monkeypatch.setattr(schedules, "MOST_TIMES", 2)
    case = next(c for c in CORRECT if c.name == "last_block_done")
    run = md.emulate(case.kernel)[case.launch](*case.arguments())
    assert run.ok and 1 < run.schedules < 12
    assert "12 schedules would take over" in run.verdict


@pytest.mark.parametrize("blocks", [1, 2, 5, 30])
@pytest.mark.parametrize("count", [1, 2, 3, 12])
def test_schedules_are_forward_backward_each_block_first_and_random(blocks, count):
    found = list(schedules.schedules_after_first(list(range(blocks))[::-1], 7, count))
    assert len(found) == count - 1
    assert [s.name for s in found[:2]] == ["forward", "backward"][: count - 1]
    assert all(sorted(s.blocks) == list(range(blocks)) for s in found)
    if count == 12:
        assert {s.blocks[0] for s in found} >= set(range(min(blocks, 5)) if blocks < 30 else {0, 29})
        assert sum(s.name.startswith("random") for s in found) >= 3
        rng = np.random.default_rng(0)
        assert found[0].threads(3, rng) == [0, 1, 2] and found[1].threads(3, rng) == [2, 1, 0]
        assert sorted(found[-1].threads(9, rng)) == list(range(9))


@pytest.mark.parametrize("number", [0, -1, 1.5, "12"])
def test_the_number_of_schedules_is_checked(number):
    with pytest.raises(md.OptionError, match="schedules must be an integer from 1 up"):
        md.emulate(counts_then_reads, schedules=number)


@cuda.jit
def count_above(x, limit, count):
    if x[cuda.threadIdx.x] > limit:
        cuda.atomic.add(count, 0, 1)


def test_an_input_that_may_only_be_read_stays_as_it_is():
    x, count = np.arange(32.0), np.zeros(1, np.int64)
    x.flags.writeable = False
    run = md.emulate(count_above)[1, 32](x, 15.5, count)
    assert run.ok and run.schedules > 1 and count[0] == 16


@cuda.jit
def writes_what_others_read(count, x, y):
    x[1 + cuda.threadIdx.x] = y[0]
    if cuda.atomic.add(count, 0, 1) == 0 and cuda.threadIdx.x == 0:
        y[0] = 1


@cuda.jit
def counts_in_what_others_read(count, x, y):
    x[1 + cuda.threadIdx.x] = y[0]
    if cuda.atomic.add(count, 0, 1) == 0 and cuda.threadIdx.x == 0:
        cuda.atomic.add(y, 0, 1)


@cuda.jit
def reads_what_others_count_in(count, x, y):
    cuda.atomic.add(y, 0, 1)
    if cuda.atomic.add(count, 0, 1) == 0 and cuda.threadIdx.x == 0:
        x[0] = y[0]


@pytest.mark.parametrize("kernel", [writes_what_others_read, counts_in_what_others_read, reads_what_others_count_in])
def test_an_array_that_raced_with_nothing_in_the_first_run_may_race_in_a_later_one(kernel):
    by_the_first = set()
    for seed in range(8):
        run = md.emulate(kernel, seed=seed)[1, 2](np.zeros(1, np.int32), np.zeros(3, np.int32), np.zeros(1, np.int32))
        assert [e.kind for e in run.errors] == ["race"], (seed, run.verdict)
        by_the_first.add(run.schedules == 1)
    assert by_the_first == {True, False}, "only where thread 0 comes first does it touch y in its own way"


def test_only_the_first_schedule_of_a_clean_launch_counts_traffic(monkeypatch):
    counted, count = [], Traffic.count
    monkeypatch.setattr(Traffic, "count", lambda self, *rows: counted.append(rows) or count(self, *rows))
    case = next(c for c in CORRECT if c.name == "last_block_done")
    run = md.emulate(case.kernel)[case.launch](*case.arguments())
    assert run.schedules == 12 and len(counted) == 1 and run.sectors > 0


def test_greenlets_serve_one_block_after_the_other(monkeypatch):
    made, greenlet = [], threads.greenlet
    monkeypatch.setattr(threads, "greenlet", lambda run: made.append(run) or greenlet(run))
    x, count = np.arange(32.0), np.zeros(1, np.int64)
    run = md.emulate(count_above)[8, 32](x, 15.5, count)
    assert run.ok and run.schedules == 12 and count[0] == 8 * 16
    assert len(made) == 64, "as many as two blocks have threads, for under random schedules two run side by side"
