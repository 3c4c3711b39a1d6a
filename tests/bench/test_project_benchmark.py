"""The recorded race of our engine: the page of the project says what was recorded."""

import json
from pathlib import Path

from minidecode.course.project.stages import STAGES
from minidecode.device.user_functions import load_python_file

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "benchmarks" / "results" / "project-cpu.json"


def test_the_page_says_what_was_recorded():
    page = (ROOT / "docs" / "PROJECT.md").read_text(encoding="utf-8")
    shown = page.split("<!-- project: written by benchmarks/project.py -->\n")[1].split("\n<!-- end of project -->")[0]
    if not RECORD.is_file():
        assert shown == "Not recorded yet."
        return
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    assert shown == load_python_file(ROOT / "benchmarks" / "project.py").table(recorded)
    assert [stage["stage"] for stage in recorded["stages"]] == list(STAGES) and recorded["lines_of_code"] <= 350


def test_a_table_of_a_race():
    runs = [("greedy", "2, greedy search", 20.0), ("greedy", "3, a cache", 400.0), ("4 beams", "4, beams", 160.0)]
    recorded = {
        "machine": {"cores": "2", "processor": "a processor", "numpy": "2", "numba": "1"},
        "turns": 3, "prompt_tokens": 64, "new_tokens": 32,
        "race": [{"work": work, "name": name, "tokens_per_second": speed} for work, name, speed in runs],
    }  # fmt: skip
    lines = load_python_file(ROOT / "benchmarks" / "project.py").table(recorded).splitlines()
    assert lines[2:5] == ["| greedy | 2, greedy search | 20.0 | 1.00x |", "| greedy | 3, a cache | 400.0 | 20.00x |",
                          "| 4 beams | 4, beams | 160.0 | 1.00x |"]  # fmt: skip
