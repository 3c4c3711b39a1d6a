"""A student's engine against its own earlier stages and against ours, by turns."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ...loading import load
from ...model import Model
from ..bars import draw_bars
from .stages import TEXT, WIDTH, oracle

PROMPT, NEW, TURNS = 64, 32, 3  # tokens, tokens, timed rounds
OURS = "minidecode"


def find_contestants(
    engine: ModuleType, folder: str, done: set[int]
) -> dict[str, dict[str, Callable[[list[int]], Any]]]:
    """Work -> who does it -> a function of the prompt. Only stages that have passed take part."""
    model = engine.load(folder)
    greedy: dict[str, Callable] = {}
    if 2 in done:
        greedy["2, greedy search"] = lambda ids: engine.greedy(model, ids, NEW)
    if 3 in done:
        greedy["3, a cache"] = lambda ids: engine.generate(model, ids, NEW)
    if {3, 9} <= done:
        greedy["9, EL"] = lambda ids: engine.generate(model, ids, NEW, begin=engine.prefill_el)
    if {3, 11} <= done:
        small = engine.quantize(model)
        greedy["11, int8"] = lambda ids: engine.generate(small, ids, NEW)
    greedy[OURS] = our_generate(1)
    beams: dict[str, Callable] = {}
    if 4 in done:
        beams["4, beams"] = lambda ids: engine.beam_search(model, ids, NEW, WIDTH)
    if {4, 5} <= done:
        beams["5, the prompt once"] = lambda ids: engine.beam_search(model, ids, NEW, WIDTH, expand=engine.split)
    if {4, 5, 9} <= done:
        beams["9, EL"] = lambda ids: engine.beam_search(
            model, ids, NEW, WIDTH, begin=engine.prefill_el, expand=engine.split
        )
    beams[OURS] = our_generate(WIDTH)
    works = {"greedy": greedy, f"{WIDTH} beams": beams}
    return {work: who for work, who in works.items() if len(who) > 1}


def our_generate(width: int) -> Callable[[list[int]], Any]:
    return lambda ids: fast_model().generate(input_ids=[ids], num_beams=width, max_new_tokens=NEW, min_new_tokens=NEW)


@functools.cache
def fast_model() -> Model:
    """Loaded for plan=fast, so that its weights are packed for it. The checks' own model is not."""
    return load("tiny-gpt2", plan="fast")


def race_engines(engine: ModuleType, folder: str, done: set[int], tell: Callable[[dict[str, Any]], None]) -> None:
    """Each runs once untimed; then in each turn all run in another order. Medians are reported; nothing is judged."""
    ids, rng = list(oracle().tokenizer.encode(TEXT)), np.random.default_rng(0)
    ids = (ids * (1 + PROMPT // len(ids)))[:PROMPT]
    for work, who in find_contestants(engine, folder, done).items():
        seconds: dict[str, list[float]] = {name: [] for name in who}
        for turn in range(TURNS + 1):
            tell({"turn": turn, "of": TURNS, "work": work})
            for name in rng.permutation(list(who)).tolist():
                began = time.perf_counter()
                who[name](ids)
                if turn:
                    seconds[name].append(time.perf_counter() - began)
        for name in who:
            middle = statistics.median(seconds[name])
            tell({"work": work, "name": name, "seconds": [round(s, 4) for s in seconds[name]],
                  "tokens_per_second": round(NEW / middle, 1)})  # fmt: skip


def picture_of_race(results: list[dict[str, Any]]) -> str:
    """Bars of tokens per second, as SVG."""
    values = {f"{r['name']} ({r['work']})": r["tokens_per_second"] for r in results}
    alt = "Bars, one for each stage and one for minidecode: tokens per second."
    figure = draw_bars(values, name="race", caption="Tokens per second?", alt=alt, say="{:,.1f}".format)
    return figure.canvases[0].svg(alt)
