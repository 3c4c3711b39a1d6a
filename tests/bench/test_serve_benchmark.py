"""benchmarks/serve.py checks before it times, and its ways answer the same requests. Its page says what it recorded."""

import json
from pathlib import Path

import pytest

import minidecode as md
from minidecode.device.user_functions import load_python_file

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
benchmark = load_python_file(BENCHMARKS / "serve.py")


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2")


@pytest.mark.parametrize("way", ["static", "leaving", "continuous", "paged"])
def test_each_way_answers_all_requests(model, way):
    found = benchmark.measure_run(model, benchmark.WAYS[way], 6, 200.0, 8, "numpy")
    tokens = sum(one.tokens for one in benchmark.requests(6, 200.0, 0))
    assert found["tokens_a_second"] == pytest.approx(tokens / found["seconds"], rel=0.05)
    assert 0 < found["first_p50"] <= found["latency_p50"] <= found["latency_p99"]


def test_ways_take_turns_on_the_same_requests(model, monkeypatch):
    ran = []

    def way(name, factor):
        def run(model, asked, rows, plan):
            ran.append((name, [one.prompt for one in asked]))
            for one in asked:
                one.times, one.ends = [one.arrives + 1, one.arrives + 2], one.arrives + 2
            return factor * len(ran)

        return run

    ways = {"static": way("static", 2.0), "continuous": way("continuous", 1.0)}
    runs = benchmark.in_turn(model, ways, 5, 1.0, 8, "numpy", 2)
    assert [name for name, _ in ran] == ["static", "continuous"] * 2
    assert ran[0][1] == ran[1][1] != ran[2][1] == ran[3][1]
    assert runs[1]["gain"] == [1.25, 1.0, 1.5] and runs[0]["gain"] == [1.0, 1.0, 1.0]
    assert runs[1]["spread"]["latency_p99"] == [2.0, 2.0]
    assert "continuous" in benchmark.table(runs)


def test_a_row_leaves_when_it_has_its_tokens(model):
    batch = [benchmark.Asked("so", {}, tokens, 0.0) for tokens in (3, 1, 5)]
    out = model.generate(["so"] * 3, max_new_tokens=5, stopping_criteria=[benchmark.ends_of(batch)])
    assert [len(ids) for ids in out.token_ids] == [3, 1, 5]


def test_wrong_answers_are_not_timed(model, monkeypatch):
    monkeypatch.setattr(benchmark, "one_by_one", lambda model, given: [model.generate("x", max_new_tokens=2)] * 12)
    with pytest.raises(AssertionError):
        benchmark.check(model, benchmark.WAYS, 8, "numpy")


def test_the_highest_load_within_a_bound():
    tried = ("a", 0, 0.1), ("a", 1, 0.5), ("a", 2, 1.0), ("a", 3, 9.0), ("b", 3, 0.1)
    runs = [{"way": way, "requests_a_second": rate, "spread": {"latency_p99": [0, p99]}} for way, rate, p99 in tried]
    assert (benchmark.at_p99(runs, "a", 1.0), benchmark.at_p99(runs, "b", 1.0)) == (2, 3)


@pytest.mark.parametrize("name", ["serve", "drafts"])
def test_the_page_says_what_was_recorded(name):
    recorded = json.loads((BENCHMARKS / "results" / f"{name}-cpu.json").read_text(encoding="utf-8"))
    page = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    shown = page.split(f"<!-- {name}: written by benchmarks/{name}.py -->\n")[1].split(f"\n<!-- end of {name} -->")[0]
    assert shown == load_python_file(BENCHMARKS / f"{name}.py").markdown(recorded)


def test_continuous_batching_at_least_doubles_what_static_batches_do():
    """As recorded: at equal latencies, and where all requests are there at once."""
    recorded = json.loads((BENCHMARKS / "results" / "serve-cpu.json").read_text(encoding="utf-8"))
    gain = {run["way"]: run["gain"][0] for run in recorded["runs"] if not run["requests_a_second"]}
    assert recorded["at_p99"]["continuous"] >= 2 * recorded["at_p99"]["static"] and gain["continuous"] >= 2
