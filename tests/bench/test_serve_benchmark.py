"""benchmarks/serve.py checks before it times, and both of its ways answer the same requests."""

from pathlib import Path

import pytest

import minidecode as md
from minidecode.device.user_functions import load_file

benchmark = load_file(Path(__file__).parents[2] / "benchmarks" / "serve.py")


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2")


@pytest.mark.parametrize("way", ["static", "continuous", "paged"])
def test_each_way_answers_all_requests(model, way):
    found = benchmark.measured(model, way, 6, 200.0, 8, "numpy")
    tokens = sum(one.tokens for one in benchmark.requests(6, 200.0, 0))
    assert found["tokens_a_second"] == pytest.approx(tokens / found["seconds"], rel=0.05)
    assert 0 < found["first_p50"] <= found["latency_p50"] <= found["latency_p99"]
    assert way in benchmark.table([found])


def test_wrong_answers_are_not_timed(model, monkeypatch):
    monkeypatch.setattr(benchmark, "one_by_one", lambda model, given: [model.generate("x", max_new_tokens=2)] * 12)
    with pytest.raises(AssertionError):
        benchmark.check(model, 8, "numpy")


def test_the_highest_load_within_a_bound():
    tried = ("a", 0, 0.1), ("a", 1, 0.5), ("a", 2, 1.0), ("a", 3, 9.0), ("b", 3, 0.1)
    runs = [{"way": way, "requests_a_second": rate, "latency_p99": p99} for way, rate, p99 in tried]
    assert (benchmark.at_p99(runs, "a", 1.0), benchmark.at_p99(runs, "b", 1.0)) == (2, 3)
