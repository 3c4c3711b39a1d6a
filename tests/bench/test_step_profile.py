"""The profile of a decode step: the README's table is what was recorded."""

import json
from pathlib import Path

from minidecode.device.user_functions import load_python_file

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_the_readme_says_what_was_recorded():
    recorded = json.loads((BENCHMARKS / "results" / "step-profile-cpu.json").read_text(encoding="utf-8"))
    table = load_python_file(BENCHMARKS / "step_profile.py").table(recorded)
    assert table in (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    for row in recorded["steps"]:
        assert row["captured_ms"] < row["plain_ms"] and row["compiled_ms"] < row["plain_ms"]
