"""The benchmark of stages runs, in small, counts each operation once, and the README says what was recorded."""

import json
import os
from pathlib import Path

import pytest

import minidecode as md
from minidecode.device.user_functions import load_python_file
from minidecode.runtime.engine import Engine

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALL = {
    "small gpt2": {"model": "tiny-gpt2", "batch": 2, "length": 8, "new": 4, "beams": 1, "ngram": 0, "largest_id": 500},
    "small bart": {"model": "tiny-bart", "batch": 1, "length": 8, "new": 4, "beams": 2, "ngram": 3, "largest_id": 500},
}


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))  # as if it were run
    for name in ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, os.environ.get(name, "1"))  # which the script sets
    return load_python_file(BENCHMARKS / "cpu_stages.py")


def test_it_runs_in_small_and_writes_json(script, tmp_path, monkeypatch, capsys):
    out, step = tmp_path / "stages.json", Engine.step
    monkeypatch.setattr("sys.argv", ["cpu_stages.py", "--turns", "2", "--only", "small", "--out", str(out)])
    monkeypatch.setattr(script, "SETTINGS", SMALL)
    monkeypatch.setattr(script, "READ", 2**16)
    script.main()
    found, printed = json.loads(out.read_text(encoding="utf-8")), capsys.readouterr().out
    dtypes = list(dict.fromkeys(row["dtype"] for row in found["stages"]))
    assert dtypes[0] == "float32"
    assert [(row["work"], row["stage"]) for row in found["stages"]] == [
        (work, stage)
        for work, stages in (("small gpt2", ("prefill", "steps")), ("small bart", ("encoder", "prefill", "steps")))
        for _ in dtypes
        for stage in stages
    ]
    assert all(row["seconds"][0] > 0 and row["of_registers"] > 0 for row in found["stages"])
    assert found["limits"]["hertz"][0] > 1e8 and script.table(found) in printed
    assert Engine.step is step


def test_each_operation_is_of_one_stage(script):
    """And those of the int8 products are apart."""
    for setting in SMALL.values():
        for dtype in ("float32", *(["int8_dynamic"] if script.DOT else [])):
            model = md.load(setting["model"], dtype=dtype, plan="fast")
            found = script.count_stages(model, setting)
            receipt = script.generate(model, setting, costs=True, plan="fast,graphs=off").receipt
            costs = [cost for count in receipt.ops.values() for cost in count.costs]
            stages = found.values()
            assert sum(s["floats"] + s["int8"] for s in stages) == sum(cost.operations for cost in costs)
            assert sum(s["int8"] for s in stages) == sum(cost.int8_operations for cost in costs)
            assert (found["steps"]["int8"] > 0) == (dtype == "int8_dynamic")
            assert (found["encoder"]["floats"] > 0) == model.has_encoder
            assert found["prefill"]["floats"] > 0


def test_seconds_are_of_the_stage_that_runs(script, monkeypatch):
    """On a clock that goes on by one at each look: an encoder's method takes one look, whatever runs inside."""
    looks = iter(range(1000))
    monkeypatch.setattr(script, "CLOCK", lambda: float(next(looks)))
    monkeypatch.setattr(Engine, "encode", lambda self, sources: self.step(None, None, None))
    monkeypatch.setattr(Engine, "step", lambda self, *given: None)
    engine = object.__new__(Engine)
    with script.watch_stages() as seconds:
        engine.encode([])
        engine.step(None, None, None)
    assert (seconds["encoder"], seconds["steps"], seconds["prefill"]) == (2.0, 1.0, 0.0)


@pytest.mark.parametrize("name", ["cpu-stages-cpu", "cpu-stages-intel-cpu"])
def test_the_readme_says_what_was_recorded(script, name):
    recorded = json.loads((BENCHMARKS / "results" / f"{name}.json").read_text(encoding="utf-8"))
    assert recorded["machine"]["processor"].startswith("Intel") == (name == "cpu-stages-intel-cpu")
    assert script.table(recorded) in (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    assert {row["work"] for row in recorded["stages"]} == set(script.SETTINGS)
    assert {row["stage"] for row in recorded["stages"] if row["work"].startswith("bart")} == {
        "encoder", "prefill", "steps",
    }  # fmt: skip
    assert all(row["of_registers"] < 1 for row in recorded["stages"])


def test_the_readme_names_the_lowest_and_the_highest_shares():
    stages = json.loads((BENCHMARKS / "results" / "cpu-stages-cpu.json").read_text(encoding="utf-8"))["stages"]
    text = " ".join((BENCHMARKS / "README.md").read_text(encoding="utf-8").split())
    large = [row for row in stages if "1 x 32" not in row["work"]]
    steps = [row for row in large if row["stage"] == "steps" and row["dtype"] == "float32"]
    both = [row["of_registers"] + row["of_reading"] for row in steps]
    whole = {
        dtype: [
            row["of_registers"] for row in large
            if row["dtype"] == dtype and row["stage"] == ("encoder" if "bart" in row["work"] else "prefill")
        ]
        for dtype in ("float32", "int8_dynamic")
    }  # fmt: skip
    assert f"1,024 rows or more reach {span(whole['float32'])} % of the registers' speed" in text
    assert f"arithmetic alone takes {span(r['of_registers'] for r in steps)} % of their time" in text
    assert f"and reading alone {span(r['of_reading'] for r in steps)} %" in text
    assert f"Together these are {span(both)} %" in text
    assert f"such an encoder or prefill reaches {span(whole['int8_dynamic'])} %" in text


def span(shares):
    percent = sorted(round(100 * share) for share in shares)
    return f"{percent[0]} to {percent[-1]}"
