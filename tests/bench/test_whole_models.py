"""Whole models under the papers' plans: in small, with tokens compared before anything is timed."""

import json
from pathlib import Path

import pytest

import minidecode as md
from minidecode.device.user_functions import load_python_file

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "whole_models.py"


def test_it_runs_in_small_and_writes_json(tmp_path, monkeypatch, capsys):
    out = tmp_path / "whole.json"
    sizes = ["--models", "tiny-gpt2", "tiny-bart", "--runs", "1", "--shrink", "8"]
    monkeypatch.setattr("sys.argv", ["whole_models.py", *sizes, "--note", "a test", "--out", str(out)])
    load_python_file(SCRIPT).main()
    found = json.loads(out.read_text(encoding="utf-8"))
    assert "a test" in capsys.readouterr().out
    for row in found["whole_models"]:
        assert list(row["plans"]) == ["baseline", "FastSeq", "EL", "all"]
        held = {label: p["memory_bytes"] for label, p in row["plans"].items()}
        assert held["EL"] < held["FastSeq"] < held["baseline"]
        assert all(p["different_sentences"] == 0 and p["samples_per_second"] > 0 for p in row["plans"].values())
        assert row["plans"]["baseline"]["speedup"] == 1


def test_the_page_says_what_was_recorded(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))  # as if it were run
    recorded = json.loads((SCRIPT.parent / "results" / "whole-models-cpu.json").read_text(encoding="utf-8"))
    page = (SCRIPT.parents[1] / "docs" / "tables.md").read_text(encoding="utf-8")
    assert load_python_file(SCRIPT).table(recorded) in page


def test_plans_that_disagree_are_not_timed(monkeypatch, tmp_path):
    """A function of the user's own that bans nothing: texts repeat themselves, as the baseline's may not."""
    path = tmp_path / "mine.py"
    path.write_text("def ban(scores_RV, *rest):\n    return scores_RV\n", encoding="utf-8")
    script = load_python_file(SCRIPT)
    monkeypatch.setitem(script.PLANS, "all", f"fast,ngram={path}:ban")
    with pytest.raises(SystemExit, match=r"the plans disagree .*'EL': 0, 'all': [1-9]"):
        script.measure("tiny-gpt2", (2, 8, 24), 1)


def test_each_plan_runs_what_its_column_says():
    """UniLM has no encoder: its source is a prompt, and EL is another op than beside an encoder."""
    from minidecode.loading import load_shapes

    script = load_python_file(SCRIPT)
    for name, op in (("unilm1.2-base-uncased", "attend_el_split"), ("bart-base", "attend_el")):
        model = load_shapes(name, vocab_size=64)
        functions, _ = md.Plan.parse(script.plans_of(model)["EL"]).resolve(model.has_encoder)
        assert functions[op].__name__ == op  # not its naive form
