"""The tables of the ladder and of its batch sizes are those that were measured."""

from pathlib import Path

import pytest

from minidecode.bench.frontier import OUT, Cell, Frontier
from minidecode.bench.ladder import read_ladder
from minidecode.device.user_functions import load_python_file

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "benchmarks" / "results" / "ladder-cpu.json"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))  # as if it were run
    return load_python_file(ROOT / "benchmarks" / "ladder.py")


def test_the_pages_say_what_was_recorded(script):
    found = read_ladder(RECORDED)
    assert script.markdown(found) in (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert script.batch_sizes(found) in (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")


def test_a_batch_size_is_measured_or_fits_or_does_not(script):
    found = read_ladder(RECORDED)
    cells = [
        Cell("this", "no cache", 1, 1000, "measured", 2.0), Cell("this", "no cache", 2, 2000, "fits"),
        Cell("this", "EL", 2, 3000, OUT), Cell("v100", "EL", 1, 1, "predicted", 9.0),
        Cell("v100", "EL", 4, 1, "predicted", 9.0), Cell("v100", "EL", 8, 1, OUT),
    ]  # fmt: skip
    found.frontier = Frontier({"this": 2500, "v100": 16_000_000_000}, 0, cells)
    lines = script.batch_sizes(found).splitlines()
    assert lines[2:4] == ["| 1 | 2.0 (1 kB) |  |  |  |  |", "| 2 | fits (2 kB) |  |  | OOM (3 kB) |  |"]
    assert lines[-1] == "Predicted for a v100 (16 GB), the largest batch: 4 (EL)."


def test_a_ladder_without_batch_sizes_says_what_is_missing(script, tmp_path, monkeypatch):
    found = read_ladder(RECORDED)
    found.frontier = None
    monkeypatch.setattr(script, "read_ladder", lambda path: found)
    (page := tmp_path / "page.md").write_text("<!-- batch-sizes: here --><!-- end of batch-sizes -->", encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["ladder.py", str(RECORDED), "--batch-sizes", str(page)])
    with pytest.raises(SystemExit, match="holds no batch sizes of this machine: they need --memory-budget"):
        script.main()
