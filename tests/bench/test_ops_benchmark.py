"""benchmarks/ops.py: the file is whole after each op, and a second call goes on where the first ended."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from minidecode.catalog import CATALOG
from minidecode.device.user_functions import load_python_file

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return load_python_file(ROOT / "benchmarks" / "ops.py")


def test_what_is_recorded_stays_and_the_rest_comes(script, tmp_path, monkeypatch, capsys):
    names, asked, out = list(CATALOG)[:4], [], tmp_path / "ops.json"
    monkeypatch.setattr(script, "CATALOG", dict.fromkeys(names))

    def compared(name, repeats, most):
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.append(name)
        return {"name": name, "timings": [{"implementation": "cpu", "median": 1e-6}]} if name != names[1] else None

    monkeypatch.setattr(script, "compare_op", compared)
    monkeypatch.setattr(sys, "argv", ["ops.py", "--out", str(out), "--most", "7"])
    with pytest.raises(KeyboardInterrupt):
        script.main()
    assert [r["name"] for r in json.loads(out.read_text())] == names[:1], "what is done is there"
    assert f"{names[1]}: left out, it takes more than 7 seconds\n" in capsys.readouterr().out
    asked[:] = [None]  # so that one more can be asked for
    with pytest.raises(KeyboardInterrupt):
        script.main()
    assert asked == [None, names[1]], "the first is not timed again"


def test_an_op_that_takes_too_long_is_none(script, monkeypatch):
    def run(command, **how):
        raise subprocess.TimeoutExpired(command, how["timeout"])

    monkeypatch.setattr(subprocess, "run", run)
    assert script.compare_op("ngram", 3, 7) is None
