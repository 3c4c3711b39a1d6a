"""The table of peers is what was measured; and ours is asked as the others are."""

import json
from pathlib import Path

import pytest

from minidecode.user_functions import load_file

HERE = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE / "benchmarks"))  # as if it were run
    return load_file(HERE / "benchmarks" / "peers.py")


def test_ratios_are_to_the_best_of_each_peer(script):
    speeds = {"minidecode fp32": 60.0, "minidecode int8": 120.0, "CTranslate2 fp32, MKL": 40.0,
              "CTranslate2 fp32, own": 50.0, "CTranslate2 int8, own": 100.0}  # fmt: skip
    found = {
        "machine": {"processor": "p", "cores": 2, "threads": 2, "blas_kernels": "SkylakeX"}, "note": "busy",
        "versions": dict.fromkeys(("numpy", "numba", "transformers", "torch", "ctranslate2"), "1"),
        "work": {"gpt2": {name: {"tokens_per_second": s} for name, s in speeds.items()}},
    }  # fmt: skip
    lines = script.table(found).splitlines()
    assert lines[2] == "| gpt2 | 60.0 | 120.0 | 50.0 | 100.0 |  | 1.20x, 1.20x |  |"
    assert lines[-1] == "busy" and "SkylakeX" in lines[-2]


def test_the_readme_says_what_was_recorded(script):
    recorded = json.loads((HERE / "benchmarks" / "results" / "peers-cpu.json").read_text(encoding="utf-8"))
    assert script.table(recorded) in (HERE / "README.md").read_text(encoding="utf-8")
    assert set(recorded["work"]) == set(script.SETTINGS)


def test_ours_makes_as_many_tokens_as_were_asked_for(script, tiny_folder):
    setting = {"batch": 2, "length": 3, "new": 4, "beams": 2, "ngram": 0}
    script.prompts_of = lambda setting: [[1, 2, 3], [3, 2, 1]]
    run = script.ours(tiny_folder(), 1, "float32")(setting)
    assert [len(t) for t in run()] == [4, 4]


def test_nothing_to_do_is_said(script, monkeypatch):
    monkeypatch.setattr("sys.argv", ["peers.py", "--only", "no such work"])
    with pytest.raises(SystemExit, match="nothing to do: works are gpt2, greedy"):
        script.main()
