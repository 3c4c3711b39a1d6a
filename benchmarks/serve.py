"""Static against continuous batching: requests of mixed lengths and searches that come at random.

    python benchmarks/serve.py --out benchmarks/results/serve-cpu.json --readme benchmarks/README.md

Requests come as a Poisson process: the gaps between them are drawn from an exponential distribution, the same for all
ways. `static` is a server that batches what waits: it takes the oldest request and all others of its kind that wait, up
to the rows that fit, generates until the longest of them ends, and takes the next batch. In `leaving`, a row that has
its tokens leaves its batch, but for beams. `ctranslate2` (where that package and transformers are installed) is the
same with CTranslate2's generate_batch in float32, which calls Python for each token, as the others do. `continuous` is
md.Scheduler, and `paged` the same with cache=paged.

All have the same rows and model, and take turns at each load. Before anything is timed, every answer of the scheduler
is compared with that of `generate` alone, and CTranslate2's greedy answers with ours.

latency is from a request's arrival to its last token. first is to its first token, and between the gap from one token
to the next. Of a beam search all tokens come at its end. `saturated` has all requests there from the beginning: its
tokens a second are what a way can do at most. `at_p99` is the highest of the loads tried at which 99 % of requests end
within the bound, in every turn.

Takes about twelve minutes. Prints tables; writes one into --readme between the marks serve, and keeps all figures in
--out as JSON.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from flags import file_to_write, positive, positive_number
from readme import with_marks, write_between_markers
from records import write_record

import minidecode as md
from minidecode.bench.compare import describe_machine
from minidecode.files.folder import find_folder
from minidecode.serving.scheduler import Scheduler, one_by_one

TEXT = "Fellow citizens of the Senate and of the House of Representatives the state of the Union is good"
KINDS: list[dict[str, Any]] = [{}, {}, {"do_sample": True, "top_k": 0}, {"num_beams": 4}]  # half are greedy
COMMON = {"no_repeat_ngram_size": 0}  # no ban: CTranslate2's overlooks the n-grams of the prompt
LENGTHS = (4, 8, 16, 120)  # new tokens: most answers are short, some are long


@dataclass
class Asked:
    """A request, and when what of it was there."""

    prompt: str
    options: dict[str, Any]
    tokens: int
    arrives: float
    times: list[float] = field(default_factory=list)  # of its tokens
    ends: float = 0.0
    token_ids: list[int] = field(default_factory=list)  # CTranslate2's, which are compared with ours

    @property
    def arguments(self) -> dict[str, Any]:
        lengths = {"max_new_tokens": self.tokens, "min_new_tokens": self.tokens}
        return {"prompt": self.prompt, **lengths, **COMMON, **self.options}

    @property
    def rows(self) -> int:
        return self.options.get("num_beams", 1)


def requests(count: int, rate: float, seed: int) -> list[Asked]:
    """So many, `rate` a second on average; 0: all are there from the beginning."""
    rng, words = np.random.default_rng(seed), np.array(TEXT.split())
    gaps = rng.exponential(1 / rate, count) if rate else np.zeros(count)
    made = []
    for number, arrives in enumerate(np.cumsum(gaps)):
        kind = KINDS[rng.integers(len(KINDS))]
        options = kind | ({"sample_id": number} if "do_sample" in kind else {})
        prompt = " ".join(np.roll(words, -number)[: rng.integers(2, 15)])
        made.append(Asked(prompt, options, int(rng.choice(LENGTHS, p=(0.3, 0.3, 0.25, 0.15))), float(arrives)))
    return made


def continuous_batches(model: md.Model, asked: list[Asked], rows: int, plan: str) -> float:
    """Runs the requests as they come -> seconds."""
    scheduler, waiting, began = Scheduler(model, max_rows=rows, plan=plan), list(asked), time.perf_counter()
    jobs = []

    def submit(one: Asked) -> None:
        def token(text: int, token: int, noted: Any) -> None:
            one.times.append(time.perf_counter() - began)

        def end(job: Any) -> None:
            assert job.state == "done", job.error
            one.ends = time.perf_counter() - began

        jobs.append(scheduler.submit(on_token=token, on_end=end, **one.arguments))

    while waiting or not scheduler.is_idle:
        now = time.perf_counter() - began
        while waiting and waiting[0].arrives <= now:
            submit(waiting.pop(0))
        if scheduler.is_idle:
            time.sleep(max(0.0, waiting[0].arrives - now))
        else:
            scheduler.step()
    return time.perf_counter() - began


def searches_of(one: Asked) -> dict[str, Any]:
    """The options that requests of one batch of `generate` have in common."""
    return {name: value for name, value in one.options.items() if name != "sample_id"}


def in_batches(asked: list[Asked], rows: int, together: Callable[[list[Asked], dict[str, Any], Any], Any]) -> float:
    """Generates all requests by batches that begin and end together -> seconds."""
    to_come, began = list(asked), time.perf_counter()
    while to_come:
        now = time.perf_counter() - began
        here = [one for one in to_come if one.arrives <= now]
        if not here:
            time.sleep(max(0.0, to_come[0].arrives - now))
            continue
        kind = searches_of(here[0])
        same = [one for one in here if searches_of(one) == kind]
        batch = same[: max(1, rows // here[0].rows)]

        def token(text: int, token: int, batch: list[Asked] = batch) -> bool:
            if len(batch[text].times) < batch[text].tokens:
                batch[text].times.append(time.perf_counter() - began)
            return len(batch[text].times) == batch[text].tokens

        together(batch, kind, None if "num_beams" in kind else token)
        for one in batch:
            one.ends = time.perf_counter() - began
            to_come.remove(one)
    return time.perf_counter() - began


def static_batches(model: md.Model, asked: list[Asked], rows: int, plan: str, rows_leave: bool = False) -> float:
    """Batches of `generate`."""

    def together(batch: list[Asked], kind: dict[str, Any], on_token: Any) -> None:
        longest = max(one.tokens for one in batch)
        given = {"max_new_tokens": longest, "min_new_tokens": longest, "plan": plan, **COMMON, **kind}
        if "do_sample" in kind:
            given["sample_ids"] = [one.options["sample_id"] for one in batch]
        if rows_leave and "num_beams" not in kind:
            given["stopping_criteria"] = [ends_of(batch)]
        model.generate([one.prompt for one in batch], streamer=on_token, **given)

    return in_batches(asked, rows, together)


def ends_of(batch: list[Asked]) -> Callable[[list[np.ndarray], Any], np.ndarray]:
    """Tells `generate` at each step which texts have all their tokens. What ends is not in the next step."""
    left, step = list(batch), 0

    def has_all(texts: list[np.ndarray], scores: Any) -> np.ndarray:
        nonlocal left, step
        step += 1
        ends = np.array([one.tokens <= step for one in left])
        assert len(texts) == len(left)
        left = [one for one in left if one.tokens > step]
        return ends

    return has_all


def static_with_leaving_rows(model: md.Model, asked: list[Asked], rows: int, plan: str) -> float:
    """Batches of `generate`, which a row leaves when its text ends; beams stay until the longest ends."""
    return static_batches(model, asked, rows, plan, rows_leave=True)


def with_ctranslate2(folder: Path) -> Callable[[md.Model, list[Asked], int, str], float]:
    """Batches of CTranslate2's generate_batch, which converts the model first: float32, a thread for each core."""
    import ctranslate2
    import tokenizers
    from ctranslate2.converters import TransformersConverter

    words = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    with tempfile.TemporaryDirectory() as converted:
        TransformersConverter(str(folder)).convert(converted, quantization="float32", force=True)
        generator = ctranslate2.Generator(converted, "cpu", compute_type="float32", intra_threads=os.cpu_count() or 1)

    def run(model: md.Model, asked: list[Asked], rows: int, plan: str) -> float:
        def together(batch: list[Asked], kind: dict[str, Any], on_token: Any) -> None:
            longest = max(one.tokens for one in batch)
            answers = generator.generate_batch(
                [words.encode(one.prompt).tokens for one in batch], max_batch_size=0, include_prompt_in_result=False,
                beam_size=kind.get("num_beams", 1), sampling_topk=0 if "do_sample" in kind else 1, max_length=longest,
                min_length=longest, callback=on_token and (lambda step: on_token(step.batch_id, step.token_id)),
            )  # fmt: skip
            for one, answer in zip(batch, answers, strict=True):
                one.token_ids = answer.sequences_ids[0][: one.tokens]

        return in_batches(asked, rows, together)

    return run


def continuous_with_pages(model: md.Model, asked: list[Asked], rows: int, plan: str) -> float:
    """Continuous batching whose rows share pages."""
    return continuous_batches(model, asked, rows, f"{plan},cache=paged")


Way = Callable[[md.Model, list[Asked], int, str], float]
WAYS: dict[str, Way] = {
    "static": static_batches,
    "leaving": static_with_leaving_rows,
    "continuous": continuous_batches,
    "paged": continuous_with_pages,
}
LATENCIES = ("latency", "first", "between")  # to the last token, to the first, from one to the next


def check(model: md.Model, ways: dict[str, Way], rows: int, plan: str) -> int:
    """Compares the scheduler's answers, and CTranslate2's greedy ones, with those of `generate` alone -> how many."""
    asked = requests(12, 0, 1)
    scheduler = Scheduler(model, max_rows=rows, plan=plan)
    jobs = [scheduler.submit(**one.arguments) for one in asked]
    scheduler.run()
    wanted = one_by_one(model, [one.arguments for one in asked])
    for job, want in zip(jobs, wanted, strict=True):
        assert [ids.tolist() for ids in job.answer.token_ids] == [ids.tolist() for ids in want.token_ids]
    if theirs := ways.get("ctranslate2"):
        theirs(model, asked, rows, plan)
        for one, want in zip(asked, wanted, strict=True):
            assert one.options or one.token_ids == want.token_ids[0].tolist()
    return len(jobs)


def measure_run(
    model: md.Model, run: Way, count: int, rate: float, rows: int, plan: str, seed: int = 0
) -> dict[str, Any]:
    """One run of one way at one load; latencies in seconds."""
    asked = requests(count, rate, seed)
    seconds = run(model, asked, rows, plan)
    latency = [one.ends - one.arrives for one in asked]
    first = [(one.times[0] if one.times else one.ends) - one.arrives for one in asked]
    gaps = [gap for one in asked for gap in np.diff(one.times)]
    figures = zip(LATENCIES, (latency, first, gaps), strict=True)
    percentiles = {f"{name}_p{p}": round(float(np.percentile(values, p)), 5)
                   for name, values in figures for p in (50, 99)}  # fmt: skip
    return {"seconds": round(seconds, 3), "tokens_a_second": sum(one.tokens for one in asked) / seconds, **percentiles}


def in_turn(
    model: md.Model, ways: dict[str, Way], count: int, rate: float, rows: int, plan: str, turns: int
) -> list[dict[str, Any]]:  # fmt: skip
    """Each way's runs at one load, which take turns, on other requests in each turn: [{way, medians, "spread"}]."""
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for turn in range(turns):
        for way, run in ways.items():
            runs[way].append(measure_run(model, run, count, rate, rows, plan, turn))
    summaries = []
    for way, of_way in runs.items():
        figures = {name: [run[name] for run in of_way] for name in of_way[0]}
        summaries.append({
            "way": way, "requests_a_second": round(rate, 2), "requests": count,
            **{name: round(float(np.median(values)), 5) for name, values in figures.items()},
            "spread": {name: [round(min(values), 5), round(max(values), 5)] for name, values in figures.items()},
            "gain": ratio_of(figures["tokens_a_second"], [run["tokens_a_second"] for run in runs["static"]]),
        })  # fmt: skip
    return summaries


def ratio_of(ours: list[float], theirs: list[float]) -> list[float]:
    """[median, least, most] of the ratios turn by turn."""
    ratios = np.array(ours) / np.array(theirs)
    return [round(float(x), 3) for x in (np.median(ratios), ratios.min(), ratios.max())]


def table(runs: list[dict[str, Any]]) -> str:
    """A line for each way at each load: medians of the turns."""
    names = [f"{name}_p{p}" for name in LATENCIES for p in (50, 99)]
    lines = [f"{'requests/s':>10} {'way':<11} {'tokens/s':>9} " + " ".join(f"{name:>12}" for name in names)]
    for run in runs:
        rate = f"{run['requests_a_second']:.1f}" if run["requests_a_second"] else "saturated"
        lines.append(f"{rate:>10} {run['way']:<11} {run['tokens_a_second']:>9.0f} "
                     + " ".join(f"{run[name] * 1e3:>9.0f} ms" for name in names))  # fmt: skip
    return "\n".join(lines)


def markdown(record: dict[str, Any]) -> str:
    """Throughput where all requests are there at once, and latencies at each load."""
    runs, ways = record["runs"], list(record["at_p99"])
    loads = sorted({run["requests_a_second"] for run in runs} - {0.0})
    by_load = {(run["way"], run["requests_a_second"]): run for run in runs}
    lines = ["| way | tokens/s, saturated | over static | "
             + " | ".join(f"{load:.0f} requests/s: p50, p99" for load in loads)
             + f" | most requests/s with p99 within {record['p99_bound']:g} s |",
             "|" + "---|" * (len(loads) + 4)]  # fmt: skip
    for way in ways:
        most = by_load[way, 0.0]
        cells = [f"{most['tokens_a_second']:,.0f}", "{:.2f}x ({:.2f}-{:.2f})".format(*most["gain"])]
        for load in loads:
            run = by_load[way, load]
            cells.append(f"{run['latency_p50'] * 1e3:,.0f}, {run['latency_p99'] * 1e3:,.0f} ms")
        lines.append(f"| {way} | {' | '.join(cells)} | {record['at_p99'][way]:.0f} |")
    where = "{processor}, {cores} cores, NumPy {numpy}, Numba {numba}".format(**record["machine"])
    what = f"{record['model']}, {record['rows']} rows. Medians of {record['turns']} turns, ratios turn by turn"
    lines += ["", f"{where}. {what}; brackets: least and most."]
    return "\n".join(lines)


def at_p99(runs: list[dict[str, Any]], way: str, bound: float) -> float:
    """The highest load tried at which 99 % of the requests end within the bound, in every turn."""
    fits = [run["requests_a_second"] for run in runs
            if run["way"] == way and run["requests_a_second"] and run["spread"]["latency_p99"][1] <= bound]  # fmt: skip
    return max(fits, default=0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny-gpt2")
    parser.add_argument("--plan", default="fast")
    parser.add_argument("--rows", type=positive, default=32)
    parser.add_argument("--seconds", type=positive, default=10, help="of arrivals at each load")
    parser.add_argument("--turns", type=positive, default=3, help="runs of each way at each load")
    parser.add_argument(
        "--loads", type=positive_number, nargs="+", default=[0.5, 1.0, 2.0], help="of what static can do at most"
    )
    parser.add_argument("--bound", type=positive_number, default=4.0, help="seconds that 99 %% of requests may take")
    parser.add_argument("--out", type=file_to_write, help="JSON file to write")
    parser.add_argument(
        "--readme", type=with_marks("serve"), help="file whose table between the marks serve is replaced"
    )
    arguments = parser.parse_args()
    model, rows, plan = md.load(arguments.model, plan=arguments.plan), arguments.rows, arguments.plan
    ways = dict(WAYS)
    if all(importlib.util.find_spec(package) for package in ("ctranslate2", "transformers")):
        ways["ctranslate2"] = with_ctranslate2(find_folder(arguments.model))
    print(f"{check(model, ways, rows, plan)} answers are those of generate alone", flush=True)
    for run in ways.values():  # compiles
        measure_run(model, run, 8, 0, rows, plan)
    runs = in_turn(model, ways, 100, 0, rows, plan, arguments.turns)
    print(table(runs), flush=True)
    most = runs[0]["requests"] / runs[0]["seconds"]  # requests a second that static can do
    for load in arguments.loads:
        rate = load * most
        runs += in_turn(model, ways, max(20, int(rate * arguments.seconds)), rate, rows, plan, arguments.turns)
        print(table(runs[-len(ways) :]), flush=True)
    reached = {way: at_p99(runs, way, arguments.bound) for way in ways}
    print(f"requests/s of which 99 % end within {arguments.bound:g} s: "
          + ", ".join(f"{way} {rate:g}" for way, rate in reached.items()))  # fmt: skip
    for run in runs[1 : len(ways)]:
        print("{}, saturated: {:.2f}x static's tokens a second ({:.2f}-{:.2f})".format(run["way"], *run["gain"]))
    record = {"model": arguments.model, "plan": plan, "rows": rows, "turns": arguments.turns,
              "machine": describe_machine(), "runs": runs, "p99_bound": arguments.bound, "at_p99": reached}  # fmt: skip
    if arguments.readme:
        write_between_markers(arguments.readme, "serve", markdown(record))
    if arguments.out:
        write_record(arguments.out, record)


if __name__ == "__main__":
    main()
