"""The benchmark of products runs, in small, and writes what it prints."""

import json
from pathlib import Path

from minidecode.user_functions import load_file

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "few_rows.py"


def test_it_runs_in_small_and_writes_json(tmp_path, monkeypatch, capsys):
    out = tmp_path / "few-rows.json"
    sizes = ["--models", "tiny-gpt2", "--rows", "1", "5", "--repeats", "1", "--cold", "1e6"]
    monkeypatch.setattr("sys.argv", ["few_rows.py", *sizes, "--out", str(out)])
    script = load_file(SCRIPT)
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 1)  # which the script sets
    script.main()
    results, printed = json.loads(out.read_text(encoding="utf-8")), capsys.readouterr().out
    assert results["gigabytes_per_second"]["read"] > 0 and "reads" in printed
    assert [(r["product"], r["layout"]) for r in results["products"]][-1] == ("unembed", "oi")
    for r in results["products"]:
        assert [(t["rows"], t["way"]) for t in r["times"]] == [(R, way) for R in (1, 5) for way in script.WAYS]
        for t in r["times"]:
            size = {"float32": 4, "float16": 2, "int8": 1}[t["way"].split()[1]] * r["inputs"] * r["outputs"]
            expected = size / t["milliseconds"][0] / 1e6
            assert abs(t["gigabytes_per_second"] - expected) < 0.01 + 0.1 * expected
