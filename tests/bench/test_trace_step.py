"""The trace of a decode step: what it counts, and that the README has what was recorded."""

import json
import sys
from pathlib import Path

import pytest

from minidecode.device.user_functions import load_python_file

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "trace_step.py"


def test_a_step_is_traced(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["trace_step.py", "--step", "2", "--out", str(tmp_path / "out.json")])
    script = load_python_file(SCRIPT)
    monkeypatch.setattr(script, "WORKS", {"greedy": ("numpy", {})})
    script.main()
    result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert script.table(result) in capsys.readouterr().out and sys.getprofile() is None
    found = result["steps"]["greedy"]
    called = {"search/greedy.py", "runtime/engine.py", "models/gpt2.py", "runtime/receipt.py"}
    assert called <= set(found["names_of_files"]) and found["files"] == len(found["names_of_files"])
    never = ("search/beam.py", "model.py", "methods/generation.py", "files/", "cpu/")  # before, behind, or not at all
    assert not [file for file in found["names_of_files"] if file.startswith(never)]
    assert found["functions"] > found["files"] and found["between_files"] >= found["files"] - 1


def test_calls_are_those_between_two_steps_from_another_file(tmp_path, monkeypatch):
    """Steps of a made package: `a` calls `b` three times, once by way of a function of others."""
    script = load_python_file(SCRIPT)
    monkeypatch.setattr(script, "PACKAGE", tmp_path)  # what counts lines looks for the files of the real one
    a, b = ("def run(b, through):", " step(); b(); b(); through(b); helper()", "def step(): pass"), "def run(): pass"
    made = {"a.py": "\n".join([*a, "def helper(): [len(()) for _ in ()]"]), "b.py": b, "/o.py": "def through(f): f()"}
    codes = {name: {} for name in made}
    for name, text in made.items():
        exec(compile(text, str(script.PACKAGE / name), "exec"), codes[name])
    trace = script.Trace(2)
    trace.step = codes["a.py"]["step"].__code__
    sys.setprofile(trace)
    for _ in range(3):
        codes["a.py"]["run"](codes["b.py"]["run"], codes["/o.py"]["through"])
    sys.setprofile(None)
    assert trace.functions == {("a.py", "run"), ("a.py", "step"), ("a.py", "helper"), ("b.py", "run")}
    assert trace.between == {("a.py", "b.py"): 3} and trace.steps == 3


def test_a_generation_without_that_step_is_an_error(monkeypatch):
    script = load_python_file(SCRIPT)
    monkeypatch.setattr(script.Trace, "__call__", lambda *_: None)
    with pytest.raises(SystemExit, match="had 0 steps: nothing is traced"):
        script.trace_step("numpy", {}, 2)


def test_the_readme_says_what_was_recorded():
    recorded = json.loads((SCRIPT.parent / "results" / "trace-step.json").read_text(encoding="utf-8"))
    assert load_python_file(SCRIPT).table(recorded) in (SCRIPT.parent / "README.md").read_text(encoding="utf-8")
