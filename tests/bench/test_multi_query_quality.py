"""benchmarks/multi_query_quality.py: which rows it tells apart, and which runs it refuses to compare."""

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from multi_query_quality import PAPER, markdown, paper_cells, read_runs, summary

LOSSES = {
    "multi-head": [4.00, 4.02, 4.04],
    "multi-query": [4.04, 4.05, 4.06],  # the best seed is as good as the baseline's worst
    "h=1": [4.05, 4.07, 4.08],
    "h=8": [3.90, 3.95, 3.99],
}
BUDGET = {"steps": 900, "tokens": 1_843_200}


def write_runs(path: Path, losses: dict[str, list[float]], family: str = "gpt2", **changes) -> Path:
    lines = [
        {"family": family, "variant": variant, "seed": seed, "budget": BUDGET, "seconds": 60 + seed, "parameters": 10,
         "H": 8, "K": 16, "F": 512, "ln_ppl": loss, "bits_per_byte": loss / 3} | changes
        for variant, mine in losses.items() for seed, loss in enumerate(mine)
    ]  # fmt: skip
    with open(path, "a", encoding="utf-8") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
    return path


def test_rows_are_told_apart_where_no_seeds_cross(tmp_path):
    found = summary(read_runs(write_runs(tmp_path / "runs", LOSSES), "gpt2"), "gpt2")
    verdicts = {row["variant"]: row["against_multi_head"] for row in found["rows"]}
    assert verdicts == {
        "multi-head": "", "multi-query": "+0.0300: inside the spread", "h=1": "+0.0467: worse",
        "h=8": "-0.0733: better",
    }  # fmt: skip
    assert found["inside_the_spread"] == [["multi-head", "multi-query"], ["multi-query", "h=1"]]
    assert found["rows"][0]["ln_ppl"] == {"mean": pytest.approx(4.02), "min": 4.00, "max": 4.04}
    table = markdown("gpt2", found)
    assert "| multi-head | 8 | 16 | 512 | 10 | 4.0200 (4.0000..4.0400) |" in table
    assert "no more than the spread of the seeds: multi-head / multi-query, multi-query / h=1." in table
    assert "by chance in one of 10 pairs" in table  # 20 orders of 3 + 3 seeds, of which two keep them apart


def test_only_seeds_that_all_variants_have_are_compared(tmp_path):
    path = write_runs(tmp_path / "runs", LOSSES | {"h=8": [3.90, 3.95]})
    runs = read_runs(path, "gpt2")
    assert list(runs) == ["multi-head", "multi-query", "h=1", "h=8"]
    assert all([run["seed"] for run in mine] == [0, 1] for mine in runs.values())
    assert read_runs(path, "bart") == {}


@pytest.mark.parametrize("losses, changes, said", [
    ({"h=2": [4.0, 4.1]}, {"budget": {"steps": 1000}}, "different budgets"),
    ({"h=2": [4.0]}, {}, "1 seeds of gpt2"),
])  # fmt: skip
def test_what_cannot_be_compared_is_refused(tmp_path, losses, changes, said):
    path = write_runs(write_runs(tmp_path / "runs", LOSSES), losses, **changes)
    with pytest.raises(SystemExit, match=said):
        read_runs(path, "gpt2")


def test_without_a_baseline_nothing_is_compared(tmp_path):
    with pytest.raises(SystemExit, match="no run of multi-head"):
        read_runs(write_runs(tmp_path / "runs", {"h=1": [4.0, 4.1]}), "gpt2")


def test_the_papers_rows_stand_beside_ours():
    """Table 3 has perplexities, Table 1 their logarithms: ln(30.2 / 29.9) = 0.010, 1.439 - 1.424 = 0.015."""
    assert paper_cells("gpt2", "multi-query") == ["9088", "3.408", "+0.010"]
    assert paper_cells("bart", "multi-query") == ["5440", "1.439", "+0.015", "26.5"]
    assert paper_cells("gpt2", "multi-query local") == ["", "", ""]  # Table 3 has no local rows
    assert set(PAPER["bart"]) == set(PAPER["gpt2"]) | {"multi-head local", "multi-query local"}
