"""The table of arenas says what the recorded file says, and the file what a plan made today says."""

import json
from pathlib import Path

import pytest

from minidecode.device.user_functions import load_python_file

HERE = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE / "benchmarks"))  # as if it were run
    return load_python_file(HERE / "benchmarks" / "arena_bytes.py")


def test_what_is_recorded_is_what_a_plan_says_today(script):
    recorded = json.loads((HERE / "benchmarks" / "results" / "arena-bytes.json").read_text(encoding="utf-8"))
    assert recorded == script.measure()
    assert script.table(recorded) in (HERE / "benchmarks" / "README.md").read_text(encoding="utf-8")
    for row in recorded["arena_rows"]:
        assert row["lower_bound"] <= row["arena_bytes"] < row["separate_bytes"] / 8


def test_a_readme_without_marks_stays_as_it_is(script, tmp_path):
    path = tmp_path / "README.md"
    path.write_text("nothing\n<!-- end of x -->\n<!-- x: here -->\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="no place for the table"):
        script.write_between_markers(path, "x", "|")
    assert "|" not in path.read_text(encoding="utf-8")
