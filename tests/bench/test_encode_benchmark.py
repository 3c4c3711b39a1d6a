"""benchmarks/encode.py: which texts it makes, what it refuses to time, and how it counts padding."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from minidecode.device.user_functions import load_python_file

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return load_python_file(BENCHMARKS / "encode.py")


def test_texts_are_the_same_each_time_and_of_the_lengths_that_are_told(script):
    words = ["war", "peace", "ship"]
    for work, number in (("one", 1), ("equal", 40), ("mixed", 40)):
        texts = script.texts_of(work, 40, words)
        lengths = [len(text.split()) + 2 for text in texts]
        assert texts == script.texts_of(work, 40, words) and len(texts) == number
        if work == "mixed":
            assert 4 <= min(lengths) < 10 and 150 < max(lengths) <= 250
            assert 10 < np.median(lengths) < 100
        else:
            assert set(lengths) == {16 if work == "one" else 64}


@pytest.mark.parametrize("wrong", [lambda texts: np.full((2, 3), 1.001), lambda texts: np.ones((2, 2)),
                                   lambda texts: np.full((2, 3), np.nan)])  # fmt: skip
def test_other_vectors_end_it_before_anything_is_timed(script, wrong):
    right = lambda texts: np.ones((2, 3))  # noqa: E731
    script.check({script.OURS: right, "same": right}, ["a", "b"], "mixed")
    with pytest.raises(
        SystemExit, match=r"mixed: other gives other vectors than minidecode, off by .*: nothing was timed"
    ):
        script.check({script.OURS: right, "other": wrong}, ["a", "b"], "mixed")


def test_a_peer_runs_at_its_fastest_batch(script, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(script.time, "perf_counter", lambda: clock[0])
    costs, calls = {4: [9, 5, 6], 8: [2, 4], 16: [3, 3]}, []  # the first call of all is not counted

    def call(texts, batch):
        calls.append(batch)
        clock[0] += costs[batch][calls.count(batch) - 1]

    assert script.fastest_batch(call, ["a"], [4, 8, 16]) == 8 and calls == [4, 4, 4, 8, 8, 16, 16]


def test_a_row_counts_padding_and_pairs_the_turns(script):
    model = SimpleNamespace(tokenizer=SimpleNamespace(encode=str.split))

    seconds = {script.OURS: [1.0, 2.0, 1.0], "theirs": [2.0, 2.0, 4.0]}
    row = script.row_of("mixed", ["a b", "a b c", "a", "a b c d"], model, seconds, {"transformers": 2, "theirs": 4})
    assert row["batch"] == {"transformers": 2, "theirs": 4}
    assert (row["tokens"], row["padded_tokens"]) == (10, 14)
    assert row["ours_faster"]["theirs"] == [2.0, 1.0, 4.0]
    assert "| mixed, 4 texts | 10 | 14 | 1000.0 | 2000.0 | 2.00x (1.00-4.00) |" in script.table([row])
