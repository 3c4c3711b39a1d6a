"""The benchmark of launches beside a driver that does nothing: it runs, and what is recorded reaches the goals."""

import json
import shutil
from pathlib import Path

import pytest

from minidecode.device.user_functions import load_python_file

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "launches_null_driver.py"
RECORD = SCRIPT.parent / "results" / "launches-null-driver.json"
COMPILER = shutil.which("gcc") or shutil.which("cc")


def recorded():
    return json.loads(RECORD.read_text(encoding="utf-8"))


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
def test_each_way_launches_beside_the_driver(tmp_path, monkeypatch, capsys):
    pytest.importorskip("cuda.bindings", reason="needs the toolkit: pip install '.[ptx]'")
    monkeypatch.setattr("sys.argv", ["launches_null_driver.py", "--turns", "3", "--out", str(tmp_path / "out.json")])
    script = load_python_file(SCRIPT)
    script.main()
    result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    found = result["microseconds"]
    assert set(found) == set(script.WAYS) and all(set(row) == {"3", "7"} for row in found.values())
    for arrays in ("3", "7"):
        of = {name: row[arrays] for name, row in found.items()}
        assert of["list"] < of["driver"] < of["recur"] < of["numba_converted_once"]
        assert of["new"] < of["numba"] < of["numba_converted_each_time"]
    assert script.table(result) in capsys.readouterr().out
    assert result["machine"]["processor"] and result["machine"]["cuda-bindings"]


@pytest.mark.parametrize("compiler", [None, "no-such-compiler"])
def test_without_a_compiler_it_says_what_to_install(monkeypatch, compiler):
    monkeypatch.setattr("sys.argv", ["launches_null_driver.py"])
    monkeypatch.delenv("CC", raising=False)
    if compiler:
        monkeypatch.setenv("CC", compiler)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match="no C compiler is found: install gcc, or set CC"):
        load_python_file(SCRIPT).main()


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
def test_without_cuda_bindings_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("sys.argv", ["launches_null_driver.py"])
    script = load_python_file(SCRIPT)
    monkeypatch.setattr(script, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"cuda-bindings is not installed.*: pip install '\.\[ptx\]'"):
        script.main()


def test_what_is_recorded_reaches_the_goals():
    found = recorded()["microseconds"]
    assert max(found["recur"].values()) <= 3 and max(found["new"].values()) <= 10
    assert max(found["list"].values()) <= 0.1


def test_the_readme_says_what_was_recorded():
    assert load_python_file(SCRIPT).table(recorded()) in (SCRIPT.parent / "README.md").read_text(encoding="utf-8")
