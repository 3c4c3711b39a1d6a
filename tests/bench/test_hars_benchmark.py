"""The benchmark of HARS runs, in small, and writes what it prints."""

import json
from pathlib import Path

import numpy as np
import pytest

from minidecode.device.user_functions import load_python_file

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "hars.py"


def test_it_runs_in_small_and_writes_json(tmp_path, monkeypatch, capsys):
    out = tmp_path / "hars.json"
    sizes = ["--small", "--trials", "20", "--repeats", "1", "--vocabulary", "640"]
    monkeypatch.setattr("sys.argv", ["hars.py", *sizes, "--out", str(out)])
    load_python_file(SCRIPT).main()
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


@pytest.mark.parametrize(
    ("per_beam", "strict", "lost"),
    [(False, False, True), (False, True, True), (True, False, False), (True, True, True)],
)
def test_what_is_lost_by_a_flat_row_and_by_beams_with_thresholds_of_their_own(per_beam, strict, lost):
    """Chapter 11's two beams: in a flat row 2 groups let 3 scores through; each beam alone, 2 and 2, all of the best.

    A strict `>` keeps only the 6: the row's threshold is 5, as is that of beam 1, whose two best tie.
    """
    total_WV = np.array([[4, 1, 2, 6, 1], [3, 5, 4, 4, 5]], np.float32)
    assert load_python_file(SCRIPT).is_lost(total_WV, per_beam, strict) == lost


def test_losses_of_beams_rise_to_those_of_a_flat_row(tmp_path, monkeypatch, capsys):
    """Beams of like scores share the best among them; where one beam is far ahead, all of the best are its own."""
    out = tmp_path / "losses.json"
    monkeypatch.setattr("sys.argv", ["hars.py", "--trials", "200", "--vocabulary", "640", "--losses", str(out)])
    load_python_file(SCRIPT).main()
    rows = json.loads(out.read_text(encoding="utf-8"))["beam_scores"]
    assert "few_per_beam" in capsys.readouterr().out
    alike, *_, far_apart = rows
    assert alike["gap"] == 0 and alike["few_per_beam"] < 0.06 and alike["strict_per_beam"] < 0.02
    assert all(0.4 < row["few_flat"] < 0.65 for row in rows)  # one row: how far beams lie apart changes nothing
    assert far_apart["few_per_beam"] == pytest.approx(far_apart["few_flat"], abs=0.08)
    assert far_apart["strict_per_beam"] == pytest.approx(far_apart["strict_flat"], abs=0.05)
    by_gap = [row["few_per_beam"] for row in rows]
    assert by_gap == sorted(by_gap)
