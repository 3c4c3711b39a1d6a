"""The benchmark of HARS runs, in small, and writes what it prints."""

import json
from pathlib import Path

from minidecode.user_functions import load_file

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "hars.py"


def test_it_runs_in_small_and_writes_json(tmp_path, monkeypatch, capsys):
    out = tmp_path / "hars.json"
    sizes = ["--small", "--trials", "20", "--repeats", "1", "--vocabulary", "640"]
    monkeypatch.setattr("sys.argv", ["hars.py", *sizes, "--out", str(out)])
    load_file(SCRIPT).main()
    results, printed = json.loads(out.read_text(encoding="utf-8")), capsys.readouterr().out
    of_eight = next(row for row in results["survivors"] if row["candidates"] == 8)
    assert of_eight["law"] == 21.7 and 12 < of_eight["survivors"] < 32
    assert 8 <= of_eight["survivors_of_many_groups"] < of_eight["survivors"]
    assert [row["strict_loses"] for row in results["weak_points"][:1]] == [1.0]
    assert set(results["candidates_ms"][0]["milliseconds"]) == {
        "reference naive", "reference hars", "reference partition", "reference", "cpu",
    }  # fmt: skip
    assert (
        all(min(row["milliseconds"]["cpu"]) > 0 for row in results["hars_ms"])
        and "log_softmax and candidates" in printed
    )
