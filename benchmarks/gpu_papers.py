"""Parts of gpu.py about the papers: FastSeq's Table 3, EL's attention, and multi-query decoding.

- ngram: the ban of every step of a batch, in the ways of ngram.py.
- el: attention of one decode step over an input (EL, Figure 4): a cache per beam, a cache per sentence, and EL, each
  version of the kernels; then BART-large with cache=split and with cache=el.
- multi_query: BART of the multi-query paper's shape, many heads and one key/value head: a step, greedy and with beams.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import multi_query_speed
import ngram
import numpy as np
from gpu_models import PLANS, Generate, load_ours, measured, prompts_of, setting_of
from gpu_timing import Record, seconds_of, spread, waiter

from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG
from minidecode.device.arrays import moved_to
from minidecode.device.graphs import capture

LAUNCHES, TURNS = 20, 9
ATTENTION = {"B": 32, "W": 4, "N": 1024, "H": 16, "K": 64}  # EL, section 4.1, and FastSeq's batch
TOY_ATTENTION = {"B": 1, "W": 2, "N": 5, "H": 2, "K": 3}
TOY_SHAPE = {"width": 16, "heads": 2, "ffn": 32, "layers": 1, "vocabulary": 40}


def run_ngram(record: Record) -> None:
    sizes = {"sentences": 1, "beams": 2, "longest": 4, "vocabulary": ngram.WORDS} if record.quick else {}

    if ngram.ROW_BY_ROW in record or ngram.LOOP in record:
        return
    record_of_run = ngram.measured(**sizes, runs=1 if record.quick else 3)
    timed = {row["way"]: row["milliseconds"] for row in record_of_run["ngram_ms"]}
    loop = timed.get(ngram.ROW_BY_ROW, timed[ngram.LOOP])[0]
    for way, ms in timed.items():
        paper = ngram.PAPER_MS.get(ngram.WAYS[way][0])
        record[way] = {"milliseconds": ms, "times_as_fast": round(loop / ms[0], 1), "paper_ms": paper}


# ---- EL --------------------------------------------------------------------------------------------------------------


def run_el(record: Record) -> None:
    for name, ready in ways_to_attend(record).items():
        record.ask(name, lambda ready=ready: time_of(ready(), record))
    work = "bart-large, beam 4, 8 x 1024, 32 new"
    loaded: list[Any] = []

    def with_cache(cache: str) -> dict:
        if not loaded:
            loaded.append(load_ours("bart-large", record))
        plan = f"{PLANS[record.device]},cache={cache}"
        setting = setting_of(work, record.quick)
        return measured(of_model(loaded[0], plan), setting, waiter(record.device), *turns_of(record))

    for cache in ("split", "el"):
        record.ask(f"{work}, cache={cache}", lambda cache=cache: with_cache(cache))


def turns_of(record: Record) -> tuple[int, int]:
    """Of a call, and of its first token."""
    return (1, 1) if record.quick else (3, 2)


def of_model(model: Any, plan: str) -> Callable[[dict], Generate]:
    """A model as one of the systems of gpu_models.py."""

    def prepare(setting: dict) -> Generate:
        ids = prompts_of(setting)

        def generate() -> tuple[list[list[int]], dict]:
            out = model.generate(
                input_ids=ids, num_beams=setting["beams"], max_new_tokens=setting["new"], eos_token_id=None,
                no_repeat_ngram_size=setting["ngram"], memory_budget=None, plan=plan,
            )  # fmt: skip
            return [t.tolist() for t in out.token_ids], {"cache_mb": round(out.receipt.cache_peak_bytes / 1e6, 1)}

        return generate

    return prepare


def ways_to_attend(record: Record) -> dict[str, Callable[[], Callable[[], Any]]]:
    """Way and version of the kernel -> a function that brings its inputs over, and returns one call."""
    s = TOY_ATTENTION if record.quick else ATTENTION
    B, W, N, H, K = (s[size] for size in "BWNHK")
    rng = np.random.default_rng(0)

    def normal(*shape: int, dtype: type = np.float32) -> np.ndarray:
        return rng.standard_normal(shape, np.float32).astype(dtype, copy=False)

    def per_beam() -> tuple:
        cache = (normal(B * W, H, N, K, dtype=np.float16) for _ in range(2))
        return normal(B * W, H, K), *cache, np.zeros(B * W, np.int64), np.full(B * W, N), K**-0.5

    def per_sentence() -> tuple:
        cache = (normal(B, H, N, K, dtype=np.float16) for _ in range(2))
        return normal(B * W, H, K), *cache, np.zeros(B, np.int64), K**-0.5

    def of_hidden_states() -> tuple:
        D = H * K
        hidden, weights = normal(B, N, D, dtype=np.float16), (normal(H, K, D), normal(H, K)) * 2
        return normal(B * W, H, K), hidden, np.zeros(B, np.int64), *weights, K**-0.5

    ready_ways = {}
    ways = {"cache per beam": ("grouped", per_beam), "cache per sentence": ("shared", per_sentence),
            "EL": ("el", of_hidden_states)}  # fmt: skip
    backend = "reference" if record.device == "cpu" else "cuda"
    for way, (row, inputs) in ways.items():
        for label, function in implementations(CATALOG[row]).items():
            if label == backend or label.startswith(f"{backend} v"):

                def ready(function: Callable = function, inputs: Callable = inputs) -> Callable[[], Any]:
                    there = moved_to(record.device, inputs())
                    return lambda: function(*there)

                ready_ways[f"{way}, {label}"] = ready
    return ready_ways


def time_of(run: Callable[[], Any], record: Record) -> dict:
    """Milliseconds a call: of a graph of LAUNCHES calls where they can be captured, else of calls by the host."""
    wait, times = waiter(record.device), 1 if record.quick else LAUNCHES
    run()
    wait()
    by_host = {"by_host_ms": spread(seconds_of(run, wait, 1 if record.quick else 3, times), 1e3)}
    if record.device == "cpu":
        return by_host
    try:
        graph, _ = capture(record.device, lambda: [run() for _ in range(times)])
    except Exception as error:
        return by_host | {"not_captured": str(error)[:100]}
    seconds = [s / times for s in seconds_of(graph.launch, wait, 1 if record.quick else TURNS)]
    return by_host | {"in_a_graph_ms": spread(seconds, 1e3)}


# ---- multi-query -----------------------------------------------------------------------------------------------------


def run_multi_query(record: Record) -> None:
    shape = TOY_SHAPE if record.quick else multi_query_speed.PAPER
    sizes = {"batch": 1, "length": 4, "new": 2} if record.quick else {"batch": 32, "length": 128, "new": 64}
    setting = sizes | {"ngram": 0, "largest_id": shape["vocabulary"]}
    loaded: dict[str, Any] = {}

    def timed(variant: str, beams: int) -> dict:
        if variant not in loaded:
            loaded.clear()
            how = {"dtype": "float16", "device": record.device}
            loaded[variant] = multi_query_speed.make(variant, shape, sizes["length"] + sizes["new"] + 2, **how)
        prepare = of_model(loaded[variant], PLANS[record.device])
        return measured(prepare, setting | {"beams": beams}, waiter(record.device), *turns_of(record))

    for variant in ("multi-head", "multi-query"):
        for beams in (1, 2 if record.quick else 4):
            record.ask(f"{variant}, beam {beams}", lambda variant=variant, beams=beams: timed(variant, beams))
