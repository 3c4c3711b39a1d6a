"""FastSeq's asynchronous pipeline (section 4.3, Table 2's third row): each overlap alone, both, and none.

    python benchmarks/pipeline.py --out benchmarks/results/pipeline-cpu.json

All ways must give the same bytes before anything is timed. Runs are interleaved, so that a machine that slows down
slows all; figures are medians, the gains medians of the ratios to the naive run of the same round. `at_most` is what
no pipeline could beat: the naive run's seconds over those of its longest stage.

On a CPU generation itself wants all cores, and the other stages only take turns with it: on two saturated cores the
gain is near 1.0x, and where handing over costs more than it hides, below. Here there is little to hide as well: the
tokenizer is compiled, and takes a hundredth of the model's time. What the paper gains (1.5x) it gains with a GPU, which
leaves the processor free, and beside a post-processing of 38 % of the time. The `stand-in` shows that side: tokens come
from a table, after a wait as long as it takes to make that share. It is simulated, and no measurement of a GPU.

Takes about two minutes. Prints the table; writes all figures to --out, and a picture of
one run with both overlaps (benchmarks/results/pipeline-cpu.svg) to --timeline.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
from flags import file_to_write, positive
from records import write_record
from threadpoolctl import threadpool_limits

import minidecode as md
from minidecode.bench.compare import describe_machine
from minidecode.lines.pipeline import OVERLAPS
from minidecode.lines.records import make_line_renderer
from minidecode.lines.timeline import draw_timeline

TEXT = "Fellow citizens of the Senate and of the House of Representatives the state of the Union is good"
SHORT = {"max_new_tokens": 8, "num_beams": 2, "num_return_sequences": 2}
LONG = {"max_new_tokens": 128, "num_beams": 4, "num_return_sequences": 4}  # of the stand-in, which generates nothing
POST_PROCESSING = 0.38  # of the time, in the paper's naive pipeline (section 5.4)


def lines_of(count: int, words: int) -> list[str]:
    """Different beginnings, of 2 words up to so many, in no order of length."""
    text = np.array(TEXT.split())
    return [" ".join(np.resize(np.roll(text, -i), 2 + i * 7 % words)) for i in range(count)]


def run(model: md.Model, lines: list[str], overlap: str, options: dict, trace: bool = False) -> tuple[str, Any]:
    """(the output's text, the receipt) of one run, written as the command line writes it."""
    render = make_line_renderer(as_json=True)
    summary = md.generate_lines(model, iter(lines), overlap=overlap, render=render, trace=trace, **options)
    return "".join(line.rendered for line in summary), summary.receipt


@contextmanager
def stand_in_for_model(model: md.Model, wait: float) -> Iterator[None]:
    """The model's answers are tokens of a table, after a wait in which the processor is free."""
    each, tokens = LONG["num_return_sequences"], LONG["max_new_tokens"]
    table = np.random.default_rng(0).integers(300, model.config.vocab_size, (8 * each, tokens))

    def generate(*, input_ids: Any, **_: Any) -> Any:
        time.sleep(wait)
        texts = each * len(input_ids)
        receipt = SimpleNamespace(new_tokens=texts * tokens)
        reasons = ["length"] * texts
        return SimpleNamespace(
            token_ids=list(table[:texts]),
            scores=np.zeros(texts),
            receipt=receipt,
            finish_reasons=reasons,
            log_probs=None,
            drafts=None,
        )

    model.generate = generate
    try:
        yield
    finally:
        del model.generate


def time_work(name: str, model: md.Model, lines: list[str], options: dict, runs: int) -> list[dict]:
    outputs = {overlap: run(model, lines, overlap, options)[0] for overlap in OVERLAPS}
    if len(set(outputs.values())) != 1:
        raise SystemExit(f"{name}: the ways give different bytes: nothing is timed")
    receipts: dict[str, list] = {overlap: [] for overlap in OVERLAPS}
    for _ in range(runs):
        for overlap in OVERLAPS:
            receipts[overlap].append(run(model, lines, overlap, options)[1])
    rows = []
    for overlap in ("none", *OVERLAPS[:-1]):
        pairs = zip(receipts["none"], receipts[overlap], strict=True)
        rows.append({
            "work": name, "overlap": overlap, "lines": len(lines), "options": options,
            "seconds": [round(s, 4) for s in sorted(r.seconds for r in receipts[overlap])],
            "gain": round(statistics.median(naive.seconds / r.seconds for naive, r in pairs), 3),
            "at_most": round(statistics.median(r.seconds / max(r.busy.values()) for r in receipts["none"]), 3),
            "stages_at_a_time": round(statistics.median(r.overlapped for r in receipts[overlap]), 3),
            "busy": {
                stage: round(statistics.median(r.busy[stage] for r in receipts[overlap]), 4)
                for stage in receipts[overlap][0].busy
            },
        })  # fmt: skip
    return rows


def table(rows: list[dict]) -> str:
    lines = [f"{'work':<44} {'overlap':<13} {'seconds':>8} {'gain':>6}  busy seconds by stage"]
    for r in rows:
        busy = ", ".join(f"{stage} {s:.3f}" for stage, s in r["busy"].items())
        seconds = statistics.median(r["seconds"])
        lines.append(f"{r['work']:<44} {r['overlap']:<13} {seconds:>8.3f} {r['gain']:>5.2f}x  {busy}")
    return "\n".join(lines)


def load_of_the_machine() -> float | None:
    """Processes that want a core, on average over the last minute, ours among them; None where nobody says."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=positive, default=5, help="turns that are timed")
    p.add_argument("--lines", type=positive, default=240)
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    p.add_argument("--timeline", type=file_to_write, help="SVG file: a run with both overlaps")
    a = p.parse_args()
    model, load_before = md.load("tiny-gpt2"), load_of_the_machine()
    short, long, rows = lines_of(a.lines, 13), lines_of(a.lines, 60), []
    for threads in sorted({1, min(2, os.cpu_count() or 1)}):
        with threadpool_limits(threads):
            name = f"tiny-gpt2, BLAS with {threads} thread{'' if threads == 1 else 's'}"
            rows += time_work(name, model, short, SHORT, a.runs)
    with stand_in_for_model(model, 0.0):
        busy = run(model, long, "none", LONG)[1].busy["post-process"]
    wait = busy * (1 / POST_PROCESSING - 1) / (a.lines / 8)
    with stand_in_for_model(model, wait):
        rows += time_work(f"stand-in (simulated), {1000 * wait:.1f} ms a batch", model, long, LONG, a.runs)
    machine = describe_machine() | {"load_before": load_before, "load_after": load_of_the_machine()}
    note = (
        "The machine was doing other work too (see its load, which is of processes that want one of its cores). Gains "
        "are ratios within a round. The stand-in simulates a device that leaves the processor free; it is not one."
    )
    print(table(rows))
    if a.out:
        write_record(a.out, {"machine": machine, "note": note, "rows": rows})
    if a.timeline:
        with stand_in_for_model(model, wait):
            receipt = run(model, long[:96], "both", LONG, trace=True)[1]
        title = f"stand-in (simulated), {len(long[:96])} lines, overlap: both"
        a.timeline.write_text(draw_timeline(receipt, title), encoding="utf-8")


if __name__ == "__main__":
    main()
