"""benchmarks/pipeline.py checks before it times, and the pages say what it found."""

import json
import re
from pathlib import Path

import pytest

import minidecode as md
from minidecode.device.user_functions import load_python_file

ROOT = Path(__file__).parents[2]
benchmark = load_python_file(ROOT / "benchmarks" / "pipeline.py")


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2")


def test_a_row_for_each_way(model):
    options = {"max_new_tokens": 2}
    rows = benchmark.time_work("toy", model, benchmark.lines_of(5, 13), options, runs=1)
    assert [r["overlap"] for r in rows] == ["none", "both", "prefetch", "post-process"]
    assert all(r["lines"] == 5 and r["busy"]["generate"] > 0 for r in rows)
    assert rows[0]["gain"] == 1.0 and "toy" in benchmark.table(rows)


def test_ways_that_differ_are_not_timed(model, monkeypatch):
    monkeypatch.setattr(benchmark, "run", lambda model, lines, overlap, options: (overlap, None))
    with pytest.raises(SystemExit, match="different bytes"):
        benchmark.time_work("toy", model, ["a"], {}, runs=1)


def test_the_stand_in_is_taken_away_again(model):
    with benchmark.stand_in_for_model(model, 0.0):
        text, receipt = benchmark.run(model, ["a", "b"], "none", benchmark.LONG)
        assert receipt.new_tokens == 2 * 4 * 128 and text.count("\n") == 2
    assert "generate" not in vars(model)


def test_the_readme_says_what_was_measured():
    results = json.loads((ROOT / "benchmarks" / "results" / "pipeline-cpu.json").read_text(encoding="utf-8"))
    gains = {"tiny-gpt2": [], "stand-in": []}
    for row in results["rows"]:
        if row["overlap"] != "none":
            gains[row["work"].split(",")[0].split(" ")[0]].append(row)
    here = [r["gain"] for r in gains["tiny-gpt2"]]
    said = f"{min(here):.2f}x to {max(here):.2f}x"
    (both,) = [r["gain"] for r in gains["stand-in"] if r["overlap"] == "both"]
    for page in ("benchmarks/README.md", "docs/INTERNALS.md"):
        text = re.sub(r"\s+", " ", (ROOT / page).read_text(encoding="utf-8"))
        assert said in text and f"{both:.2f}x" in text, page
    assert "simulate" in results["note"] and "other work" in results["note"]
