"""The benchmark of tiles runs, in small, and the README says what was recorded."""

import json
from pathlib import Path

import pytest

from minidecode.cpu.common.tile import FLOAT, best_of, registers_taken
from minidecode.device.user_functions import load_python_file

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))  # as if it were run
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")  # which the script sets
    return load_python_file(BENCHMARKS / "tiles.py")


def test_it_runs_in_small_and_writes_json(script, tmp_path, monkeypatch, capsys):
    if FLOAT is None and best_of(script.MORE_FLOATS) is None:
        pytest.skip("no vectors here that multiply and add")
    out = tmp_path / "tiles.json"
    monkeypatch.setattr("sys.argv", ["tiles.py", "--turns", "1", "--note", "a test", "--out", str(out)])
    monkeypatch.setattr(script, "TILES", {32: ((6, 4), (2, 2)), 16: ((6, 2),)})
    monkeypatch.setattr(script, "PRODUCTS", {"small": (40, 70)})
    monkeypatch.setattr(script, "SECONDS", 1e-5)
    script.main()
    found, printed = json.loads(out.read_text(encoding="utf-8")), capsys.readouterr().out
    for measured in found["tiles"]:
        for row in measured["tiles"]:
            assert row["taken"] == registers_taken(row["rows"], row["registers"])
            assert all(share > 0 for shares in row["of_registers"].values() for share in shares)
    assert len(found["packing"]) == (0 if FLOAT is None else len(script.ROWS_OF_PRODUCTS))
    assert "| 6 x 2 | 15 | 0.67 |" in printed and found["machine"]["note"] == "a test"


@pytest.mark.skipif(FLOAT is None, reason="float32 products are the BLAS's here")
def test_a_wrong_tile_is_not_timed(script, monkeypatch):
    monkeypatch.setattr(script, "loop_over", lambda kind: lambda *given: None)
    with pytest.raises(SystemExit, match=r"a tile of \(6, 4\) is wrong: nothing was timed"):
        script.measure_tiles(FLOAT, ((6, 4),), 1)


def recorded():
    return json.loads((BENCHMARKS / "results" / "tiles-cpu.json").read_text(encoding="utf-8"))


def test_the_readme_says_what_was_recorded(script):
    assert script.table(recorded()) in (BENCHMARKS / "README.md").read_text(encoding="utf-8")


def test_the_tile_of_the_model_was_as_fast_as_any():
    """Weights in the second level: 6 x 4 and 6 x 2 are the model's. Tiles that do not fit, or load more, are slower."""
    wide, narrow = (
        {(t["rows"], t["registers"]): (t["of_registers"]["second"][0], t) for t in measured["tiles"]}
        for measured in recorded()["tiles"]
    )
    for shares, chosen in ((wide, (6, 4)), (narrow, (6, 2))):
        assert max(share for share, _ in shares.values()) - shares[chosen][0] <= 0.03
    assert wide[8, 4][0] < wide[6, 4][0] - 0.1
    slower = [shape for shape, (_, t) in narrow.items() if t["taken"] > 16 or t["loads_per_fma"] > 0.67]
    assert len(slower) == 7 and all(narrow[shape][0] < narrow[6, 2][0] - 0.03 for shape in slower)
