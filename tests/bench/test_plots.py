"""The pictures: drawn of results in small, and every series that a table has is in them."""

import json
from pathlib import Path

import pytest

from minidecode.device.user_functions import load_python_file

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
plots = load_python_file(BENCHMARKS / "plots.py")


def drawn(tmp_path, monkeypatch, found: dict, *suffixes: str) -> list[str]:
    """The SVG files that are made of these results."""
    path = tmp_path / "result.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["plots.py", str(path)])
    plots.main()
    assert sorted(p.name for p in tmp_path.glob("*.svg")) == sorted(f"result{suffix}.svg" for suffix in suffixes)
    return [(tmp_path / f"result{suffix}.svg").read_text(encoding="utf-8") for suffix in suffixes]


def run(monkeypatch, tmp_path, script: str, *arguments: str) -> dict:
    """What a benchmark writes."""
    out = tmp_path / "small.json"
    monkeypatch.setattr("sys.argv", [script, *arguments, "--out", str(out)])
    load_python_file(BENCHMARKS / script).main()
    return json.loads(out.read_text(encoding="utf-8"))


def test_el(tmp_path, monkeypatch):
    sizes = ["--positions", "8", "16", "--beams", "1", "4", "--heads", "2", "--width", "16", "--runs", "1"]
    found = run(monkeypatch, tmp_path, "el_attention.py", *sizes)
    times, rooflines = plots.el_figure_4(found), plots.el_figure_3(found)
    assert [axes.get_title() for axes in times.axes[:6]] == [
        "measured here", "predicted: this machine", "predicted: v100", "predicted: t4", "predicted: h100",
        "predicted: h200",
    ]  # fmt: skip
    for axes in times.axes:
        assert [line.get_label() for line in axes.lines] == ["no cache", "cache per beam", "cache per sentence", "el"]
    measured = times.axes[0].lines[3]
    assert measured.get_xdata().tolist() == [8, 16]
    assert measured.get_ydata()[1] == next(
        r["ms_per_sentence"]["el"][0] for r in found["figure_4"] if (r["N"], r["W"]) == (16, 4)
    )
    assert [axes.get_title() for axes in rooflines.axes] == ["this machine", "v100", "t4", "h100", "h200"]
    assert all("<svg" in svg for svg in drawn(tmp_path, monkeypatch, found, "", "-roofline"))


def test_hars(tmp_path, monkeypatch):
    found = run(monkeypatch, tmp_path, "hars.py", "--small", "--trials", "5", "--repeats", "1", "--vocabulary", "640")
    lost = plots.hars(found).axes[1].lines
    assert [line.get_ydata()[0] for line in lost] == [100, 100]  # one beam: its best alone is above a strict threshold
    assert "<svg" in drawn(tmp_path, monkeypatch, found, "")[0]


def test_multi_query_speed(tmp_path, monkeypatch):
    found = run(monkeypatch, tmp_path, "multi_query_speed.py", "--batches", "1", "--lengths", "4", "--runs", "1")
    for axes in plots.multi_query_speed(found).axes:
        assert axes.get_legend_handles_labels()[1] == list(found["parameters"])
    assert "<svg" in drawn(tmp_path, monkeypatch, found, "")[0]


def test_lightseq(tmp_path, monkeypatch, capsys):
    found = run(monkeypatch, tmp_path, "lightseq.py", "--small", "--runs", "1")
    assert all(r["equal_tokens"] == dict.fromkeys(r["seconds"], True) for r in found["figure_5"] + found["figure_6"])
    for percent in found["figure_4"].values():
        assert sum(percent.values()) == pytest.approx(100, abs=0.3) and percent["products"] > 0
    assert "| beam 4, (1, 4) |" in capsys.readouterr().out
    where, beams, sampling = plots.lightseq(found).axes
    assert len(where.patches) == 3 * 4 and len(beams.patches) == 2 * 2 and len(sampling.patches) == 2 * 6
    assert beams.get_xticklabels()[0].get_text() == "(1, 4)"
    assert "<svg" in drawn(tmp_path, monkeypatch, found, "")[0]


def test_memory_bytes(tmp_path, monkeypatch, capsys):
    """The papers' columns, by the formulas written out: states of the input; for FastSeq those of 50 new tokens too."""
    found = run(monkeypatch, tmp_path, "memory_bytes.py")
    assert "held bytes are those of the formulas" in capsys.readouterr().out
    for r in found["el_table_4"]:
        B, N = r["batch"], r["length"]
        keys_and_values, hidden = 2 * 12 * 4 * B * N * 1024 * 2, B * N * 1024 * 2
        assert r["gib"] == {"cache=replicated": keys_and_values / 2**30, "cache=el": hidden / 2**30}
        assert r["gib"]["cache=el"] == pytest.approx(r["paper"]["cache=el"], rel=0.25, abs=0.005)
        assert r["gib"]["cache=replicated"] == pytest.approx(r["paper"]["cache=replicated"], rel=0.01)
    for r, copies in zip(found["fastseq_table_2"], (4, 1, 1), strict=True):
        positions = copies * 1024 + 4 * 50
        assert r["gib"] == r["batch"] * positions * 2 * 12 * 1024 * 2 / 2**30 == pytest.approx(r["paper"], rel=0.01)
    assert len(plots.memory_bytes(found).axes[0].patches) == 4 * 6
    assert "<svg" in drawn(tmp_path, monkeypatch, found, "")[0]


def test_multi_query_quality(tmp_path, monkeypatch):
    loss = {"mean": 2.0, "min": 1.5, "max": 3.0}
    rows = [{"variant": name, "ln_ppl": loss} for name in ("multi-head", "h=1")]
    found = {"gpt2": {"budget": {"steps": 500}, "rows": rows}}
    axes = plots.multi_query_quality(found).axes[0]
    assert axes.lines[0].get_xdata().tolist() == [2.0, 2.0]
    assert [segment[:, 0].tolist() for segment in axes.collections[0].get_segments()] == [[1.5, 3.0]] * 2
    assert "<svg" in drawn(tmp_path, monkeypatch, found, "")[0]


def test_other_files_are_left_out_among_several_and_refused_alone(tmp_path, monkeypatch, capsys):
    (other := tmp_path / "other.json").write_text('{"rows": []}', encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["plots.py", str(other), str(other)])
    plots.main()
    assert capsys.readouterr().out.count("other.json holds none of the results that are drawn here: left out") == 2
    with pytest.raises(SystemExit, match=r"result\.json holds none of the results that are drawn here$"):
        drawn(tmp_path, monkeypatch, {"rows": []})


def test_what_is_no_json_is_refused(tmp_path, monkeypatch):
    (tmp_path / "empty.json").touch()
    for path in (tmp_path / "empty.json", BENCHMARKS / "plots.py"):
        monkeypatch.setattr("sys.argv", ["plots.py", str(path)])
        with pytest.raises(SystemExit, match="cannot be read"):
            plots.main()
