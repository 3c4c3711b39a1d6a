"""The benchmark of whole-number products runs, in small, and writes what it prints."""

import json
import statistics
from pathlib import Path

import pytest

from minidecode.cpu.common.tile import DOT
from minidecode.device.user_functions import load_python_file

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "int8_gemm.py"


@pytest.mark.skipif(DOT is None, reason="no integer dot product here")
def test_it_runs_in_small_and_writes_json(tmp_path, monkeypatch, capsys):
    out = tmp_path / "int8.json"
    monkeypatch.setattr("sys.argv", ["int8_gemm.py", "--rows", "1", "16", "--turns", "1", "--products", "out", "--out",
                                     str(out)])  # fmt: skip
    script = load_python_file(SCRIPT)
    for size in ("COLD", "READ"):
        monkeypatch.setattr(script, size, 2**20)
    script.main()
    rows = json.loads(out.read_text(encoding="utf-8"))["products"]
    assert [(r["product"], r["rows"]) for r in rows] == [("out", 1), ("out", 16)]
    limits = [r["back_to_back"]["int8_dynamic"] for r in rows]
    assert all(of["of_registers"] > 0 and of["of_reading"] > 0 for of in limits)
    assert f"{limits[1]['of_registers']:.0%} |" in capsys.readouterr().out


@pytest.mark.skipif(DOT is None, reason="no integer dot product here")
@pytest.mark.parametrize("way", ["linear_int8", "linear"])
def test_a_wrong_product_is_not_timed(way, monkeypatch):
    monkeypatch.setattr("sys.argv", ["int8_gemm.py", "--rows", "1", "--turns", "1", "--products", "out"])
    script = load_python_file(SCRIPT)
    for size in ("COLD", "READ"):
        monkeypatch.setattr(script, size, 2**20)
    right = getattr(script, way)
    monkeypatch.setattr(script, way, lambda x_RX, weight, out=None: right(x_RX, weight, out=out) * 1.001)
    with pytest.raises(SystemExit, match=r"is wrong for \(1, 768\) x \(768, 768\): nothing was timed"):
        script.main()


@pytest.mark.skipif(DOT is None, reason="no integer dot product here")
def test_a_launched_product_that_is_wrong_is_not_timed(monkeypatch):
    monkeypatch.setattr("sys.argv", ["int8_gemm.py", "--rows", "1", "--turns", "1", "--products", "out"])
    script = load_python_file(SCRIPT)
    for size in ("COLD", "READ"):
        monkeypatch.setattr(script, size, 2**20)
    monkeypatch.setattr(script.Graph, "launch", lambda graph: None)
    with pytest.raises(SystemExit, match=r"a launched product of \(1, 768\) is wrong .*: nothing was timed"):
        script.main()


def test_the_readme_says_what_was_recorded(monkeypatch):
    recorded = json.loads((SCRIPT.parent / "results" / "int8-gemm-cpu.json").read_text(encoding="utf-8"))
    assert load_python_file(SCRIPT).table(recorded, {"up"}) in (SCRIPT.parent / "README.md").read_text(encoding="utf-8")


def test_the_readme_names_the_lowest_shares():
    recorded = json.loads((SCRIPT.parent / "results" / "int8-gemm-cpu.json").read_text(encoding="utf-8"))["products"]
    text = " ".join((SCRIPT.parent / "README.md").read_text(encoding="utf-8").split())
    one_row = [of["of_reading"] for r in recorded if r["rows"] == 1 for of in r["back_to_back"].values()]
    many = [r["back_to_back"]["int8_dynamic"]["of_registers"] for r in recorded if r["rows"] >= 128]
    assert f"One row reads at {100 * min(one_row):.0f} % or more of the bandwidth" in text
    assert f"all four products reach {100 * min(many):.0f} % or more" in text
    assert f"and {100 * statistics.median(many):.0f} % on the median" in text
