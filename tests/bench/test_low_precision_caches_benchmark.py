"""The benchmark of narrow caches runs, in small, and writes what it prints."""

import json
from pathlib import Path

import pytest

from minidecode.device.user_functions import load_python_file

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "low_precision_caches.py"


def test_it_runs_in_small_and_writes_json(tmp_path, monkeypatch, capsys):
    out = tmp_path / "narrow.json"
    monkeypatch.setattr(
        "sys.argv", ["low_precision_caches.py", "--positions", "5", "9", "--repeats", "2", "--out", str(out)]
    )
    script = load_python_file(SCRIPT)
    monkeypatch.setattr(script, "LAYERS", 2)
    script.main()
    results, printed = json.loads(out.read_text(encoding="utf-8")), capsys.readouterr().out
    assert [(r["op"], r["positions"]) for r in results["rows"]] == [(way, N) for N in (5, 9) for way in script.WAYS]
    for r in results["rows"]:
        assert set(r["milliseconds"]) == {"float32", "float16"} and f"| {r['op']} | {r['positions']} |" in printed
        assert all(0 < low <= median <= high for median, low, high in r["milliseconds"].values())


def test_it_refuses_to_time_what_is_wrong(monkeypatch):
    script = load_python_file(SCRIPT)
    monkeypatch.setitem(script.WAYS, "grouped, cpu", lambda q, k, *rest: q * k.itemsize)
    with pytest.raises(SystemExit, match="grouped, cpu, float16: not what float32 says"):
        dict(script.calls_of("grouped, cpu", 5))
