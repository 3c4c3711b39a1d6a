"""What the predictions' oracles compute is what the emulator finds."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numba import cuda, float32

import minidecode as md
from minidecode.course.exercises.find import exercises, find
from minidecode.course.exercises.prediction_task import PredictionTask, factor_between

PREDICTIONS = [e for e in exercises().values() if isinstance(e.task, PredictionTask)]


@pytest.mark.parametrize("exercise", PREDICTIONS, ids=lambda e: e.name)
def test_no_known_mistake_passes_within_the_tolerance(exercise):
    task = exercise.task
    for seed in range(60):
        v = task.draw_variation(seed)
        right = task.expected_outputs(v)
        for theirs in task._mistaken_predictions(v):
            off = max(factor_between(theirs[name], right[name]) for name in task.answers)
            assert off > 1.4 * task.within - 0.4, f"seed {seed}"


@pytest.mark.parametrize("seed", range(20))
def test_the_races_to_be_found_are_those_that_the_emulator_finds(seed, tmp_path):
    task = find("9").task
    v = task.draw_variation(seed)
    right = task.expected_outputs(v)
    path = tmp_path / "program.py"
    path.write_text("".join(line[4:] + "\n" for line in v.program.splitlines()))
    names = {"cuda": cuda, "float32": float32, "THREADS": v.threads}
    exec(compile(path.read_text(), str(path), "exec"), names)
    out, edge, a = (np.zeros(n, np.float32) for n in (3, 4, 3 * v.threads))
    a[:] = np.arange(a.size)
    run = md.emulate(names["spread"], seed=seed)[3, v.threads](out, edge, a)
    races = {f.detail["element"].partition("[")[0]: f for f in run.errors if f.kind == "race"}
    assert set(races) == {"s", "edge"} and len(run.errors) == 2
    lines = {name: tuple(sorted({p.line for p in race.places})) for name, race in races.items()}
    assert lines == {"s": right["WITHIN"], "edge": right["BETWEEN"]}
    one, two = right["THREADS_AT_CELL"]
    assert one != two
    message = task.explain(v)
    assert set(map(int, re.findall(r"thread (\d+)", message))) == {one, two}


@cuda.jit
def three_lines(out, a, b, c, offset, stride, start, share):
    t = cuda.threadIdx.x
    x = a[offset + t]
    y = b[stride * t]
    z = c[start + t // share]
    out[t] = x + y + z


@pytest.mark.parametrize("seed", range(10))
def test_the_sectors_to_be_predicted_are_those_that_the_emulator_counts(seed):
    task = find("13").task
    v = task.draw_variation(seed)
    a, b = np.zeros(128, f"f{v.width}"), np.zeros(512, np.float32)
    c = np.zeros(128, np.float64 if v.size == 8 else np.float32)
    out = np.zeros(32, np.float32)
    run = md.emulate(three_lines)[1, 32](out, a, b, c, v.offset, v.stride, vars(v)["from"], v.share)
    loads = {place.line: count.sectors for place, count in run.lines.items() if count.global_loads}
    assert [sectors for _, sectors in sorted(loads.items())] == list(task.expected_outputs(v).values())
