"""Static against continuous batching: requests of mixed lengths and searches that come at random.

    python benchmarks/serve.py --out benchmarks/results/serve-cpu.json

Requests come as a Poisson process: the gaps between them are drawn from an exponential distribution, the same for all
ways. `static` is a server that batches what waits: it takes the oldest request and all others of its kind that wait, up
to the rows that fit, generates until the longest of them ends, and takes the next batch. `continuous` is md.Scheduler,
and `paged` the same with cache=paged. All have the same rows, plan and model; before anything is timed, every answer of
the scheduler is compared with that of `generate` alone. Runs of the ways take turns at each load.

latency is from a request's arrival to its last token. first is to its first token, and between the gap from one token
to the next. Of a beam search all tokens come at its end. `saturated` has all requests there from the beginning: its
tokens a second are what a way can do at most. `at_p99` is the highest of the loads tried at which 99 % of requests end
within the bound; the gain is the ratio of the two.

Takes about four minutes. Prints a table; --out keeps it as JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flags import positive, positive_number, to_write

import minidecode as md
from minidecode.bench.compare import where_it_ran
from minidecode.serving.scheduler import Scheduler, one_by_one

TEXT = "Fellow citizens of the Senate and of the House of Representatives the state of the Union is good"
KINDS: list[dict[str, Any]] = [{}, {}, {"do_sample": True, "top_k": 0}, {"num_beams": 4}]  # half are greedy
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

    @property
    def arguments(self) -> dict[str, Any]:
        return {"prompt": self.prompt, "max_new_tokens": self.tokens, "min_new_tokens": self.tokens, **self.options}

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


def continuous(model: md.Model, asked: list[Asked], rows: int, plan: str) -> float:
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


def static(model: md.Model, asked: list[Asked], rows: int, plan: str) -> float:
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
        longest = max(one.tokens for one in batch)

        def token(text: int, token: int, batch: list[Asked] = batch) -> None:
            if len(batch[text].times) < batch[text].tokens:
                batch[text].times.append(time.perf_counter() - began)

        streamer = None if "num_beams" in kind else token
        sample_ids = [one.options["sample_id"] for one in batch] if "do_sample" in kind else None
        lengths = {"max_new_tokens": longest, "min_new_tokens": longest}
        given = dict(streamer=streamer, sample_ids=sample_ids, plan=plan, **lengths, **kind)
        model.generate([one.prompt for one in batch], **given)
        for one in batch:
            one.ends = time.perf_counter() - began
            to_come.remove(one)
    return time.perf_counter() - began


def paged(model: md.Model, asked: list[Asked], rows: int, plan: str) -> float:
    """Continuous batching whose rows share pages."""
    return continuous(model, asked, rows, f"{plan},cache=paged")


Way = Callable[[md.Model, list[Asked], int, str], float]
WAYS: dict[str, Way] = {"static": static, "continuous": continuous, "paged": paged}


def check(model: md.Model, rows: int, plan: str) -> int:
    """Compares the scheduler's answers with those of `generate` alone -> how many."""
    asked = requests(12, 0, 1)
    scheduler = Scheduler(model, max_rows=rows, plan=plan)
    jobs = [scheduler.submit(**one.arguments) for one in asked]
    scheduler.run()
    for job, want in zip(jobs, one_by_one(model, [one.arguments for one in asked]), strict=True):
        assert [ids.tolist() for ids in job.answer.token_ids] == [ids.tolist() for ids in want.token_ids]
    return len(jobs)


def measured(model: md.Model, way: str, count: int, rate: float, rows: int, plan: str, seed: int = 0) -> dict[str, Any]:
    """One run of one way at one load."""
    asked = requests(count, rate, seed)
    seconds = WAYS[way](model, asked, rows, plan)
    latency = [one.ends - one.arrives for one in asked]
    first = [(one.times[0] if one.times else one.ends) - one.arrives for one in asked]
    gaps = [gap for one in asked for gap in np.diff(one.times)]
    figures = {"latency": latency, "first": first, "between": gaps}
    percentiles = {f"{name}_p{p}": round(float(np.percentile(values, p)), 5)
                   for name, values in figures.items() for p in (50, 99)}  # fmt: skip
    return {
        "way": way, "requests_a_second": round(rate, 2), "requests": count, "seconds": round(seconds, 3),
        "tokens_a_second": round(sum(one.tokens for one in asked) / seconds, 1), **percentiles,
    }  # fmt: skip


def table(runs: list[dict[str, Any]]) -> str:
    """A line for each run."""
    names = ("latency_p50", "latency_p99", "first_p50", "first_p99", "between_p50", "between_p99")
    lines = [f"{'requests/s':>10} {'way':<11} {'tokens/s':>9} " + " ".join(f"{name:>12}" for name in names)]
    for run in runs:
        rate = f"{run['requests_a_second']:.1f}" if run["requests_a_second"] else "saturated"
        lines.append(f"{rate:>10} {run['way']:<11} {run['tokens_a_second']:>9.0f} "
                     + " ".join(f"{run[name] * 1e3:>9.0f} ms" for name in names))  # fmt: skip
    return "\n".join(lines)


def at_p99(runs: list[dict[str, Any]], way: str, bound: float) -> float:
    """The highest load tried at which 99 % of the requests end within the bound."""
    fits = [run["requests_a_second"] for run in runs
            if run["way"] == way and run["requests_a_second"] and run["latency_p99"] <= bound]  # fmt: skip
    return max(fits, default=0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny-gpt2")
    parser.add_argument("--plan", default="fast")
    parser.add_argument("--rows", type=positive, default=32)
    parser.add_argument("--seconds", type=positive, default=10, help="of arrivals at each load")
    parser.add_argument(
        "--loads", type=positive_number, nargs="+", default=[0.5, 1.0, 1.5, 2.0], help="of what static can do at most"
    )
    parser.add_argument("--bound", type=positive_number, default=4.0, help="seconds that 99 %% of requests may take")
    parser.add_argument("--out", type=to_write)
    arguments = parser.parse_args()
    model, rows, plan = md.load(arguments.model), arguments.rows, arguments.plan
    print(f"{check(model, rows, plan)} answers are those of generate alone", flush=True)
    for way in WAYS:  # compiles
        measured(model, way, 8, 0, rows, plan)
    runs = [measured(model, way, 100, 0, rows, plan) for way in WAYS]
    most = runs[0]["requests"] / runs[0]["seconds"]  # requests a second that static can do
    for load in arguments.loads:
        rate = load * most
        count = max(20, int(rate * arguments.seconds))
        runs += [measured(model, way, count, rate, rows, plan) for way in WAYS]
        print(table(runs[-len(WAYS) :]), flush=True)
    reached = {way: at_p99(runs, way, arguments.bound) for way in WAYS}
    gain = reached["continuous"] / reached["static"] if reached["static"] else float("inf")
    saturated = runs[1]["tokens_a_second"] / runs[0]["tokens_a_second"]
    print(table(runs))
    within = ", ".join(f"{way} {rate:g}" for way, rate in reached.items())
    print(f"requests/s of which 99 % end within {arguments.bound:g} s: {within} ({gain:.1f}x)")
    print(f"saturated: {saturated:.2f}x the tokens a second")
    if arguments.out:
        record = {"model": arguments.model, "plan": plan, "rows": rows, **where_it_ran(), "runs": runs,
                  "p99_bound": arguments.bound, "at_p99": reached, "gain_at_p99": gain,
                  "gain_saturated": saturated}  # fmt: skip
        arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
