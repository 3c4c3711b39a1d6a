"""The first rungs of FastSeq's Table 2 on the bundled model: no cache, the caches before FastSeq, its split cache.

    python benchmarks/first_rungs.py --out benchmarks/results/first-rungs-cpu.json --readme benchmarks/README.md

All plans get the same prompts and must give the same tokens before anything is timed. Runs are interleaved, so that
a machine that slows down slows all; figures are medians of the runs, with the smallest and largest beside them.

Takes about two minutes. Prints the table; writes it into --readme between the marks first-rungs, and all figures to
--out.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from flags import file_to_write, positive
from readme import with_marks, write_between_markers
from records import write_record

import minidecode as md
from minidecode.bench.compare import describe_machine

PLANS = ("cache=none", "cache=replicated", "cache=preallocated", "cache=split")
SETTINGS = [
    {"prompts": 1, "prompt_tokens": 32, "num_beams": 1, "new_tokens": 64},
    {"prompts": 8, "prompt_tokens": 128, "num_beams": 1, "new_tokens": 32},
    {"prompts": 4, "prompt_tokens": 256, "num_beams": 4, "new_tokens": 32},
]
TEXT = "Fellow citizens of the Senate and of the House of Representatives, the state of the Union is good. "


def prompts_of(model: md.Model, count: int, length: int) -> list[np.ndarray]:
    """`count` different prompts of `length` tokens, each starting elsewhere in the same repeated text."""
    ids = np.resize(model.tokenizer.encode(TEXT), length + count)
    return [ids[i : i + length] for i in range(count)]


def time_setting(model: md.Model, setting: dict, runs: int) -> list[dict]:
    ids = prompts_of(model, setting["prompts"], setting["prompt_tokens"])
    options = {"num_beams": setting["num_beams"], "max_new_tokens": setting["new_tokens"],
               "eos_token_id": None, "no_repeat_ngram_size": 3}  # fmt: skip
    outs = {plan: model.generate(input_ids=ids, plan=plan, **options) for plan in PLANS}
    tokens_of = [[t.tolist() for t in outs[plan].token_ids] for plan in PLANS]
    if any(tokens != tokens_of[0] for tokens in tokens_of):
        raise SystemExit(f"the plans disagree on {setting}: nothing is timed")
    seconds = {plan: [] for plan in PLANS}
    for _ in range(runs):
        for plan in PLANS:
            started = time.perf_counter()
            model.generate(input_ids=ids, plan=plan, **options)
            seconds[plan].append(time.perf_counter() - started)
    tokens = setting["prompts"] * setting["new_tokens"]
    return [
        setting | {"plan": plan, "tokens_per_second": round(tokens / statistics.median(s), 1),
                   "seconds": [round(x, 4) for x in sorted(s)],
                   "speedup": round(statistics.median(seconds[PLANS[0]]) / statistics.median(s), 2),
                   "cache_peak_bytes": outs[plan].receipt.cache_peak_bytes}
        for plan, s in seconds.items()
    ]  # fmt: skip


def markdown(machine: dict, rows: list[dict]) -> str:
    """The table."""
    lines = ["| work | plan | tokens/s | speedup | keys and values |", "|---|---|---|---|---|"]
    for r in rows:
        search = f"beam {r['num_beams']}" if r["num_beams"] > 1 else "greedy"
        work = f"{search}, {r['prompts']} x {r['prompt_tokens']} tokens, {r['new_tokens']} new"
        spread = f"{r['tokens_per_second']:,.0f} ({r['seconds'][0]:.2f}-{r['seconds'][-1]:.2f} s)"
        lines.append(f"| {work} | {r['plan']} | {spread} | {r['speedup']}x | {r['cache_peak_bytes'] / 1e6:.1f} MB |")
    lines.append(f"\nMachine: {machine['cores']} cores ({machine['processor']}), NumPy {machine['numpy']}.")
    return "\n".join(lines)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=positive, default=5, help="turns that are timed")
    p.add_argument("--note", default="", help="what else ran on the machine meanwhile")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    p.add_argument("--readme", type=with_marks("first-rungs"), help="README whose table is replaced")
    a = p.parse_args()
    model = md.load("tiny-gpt2")
    rows = [row for setting in SETTINGS for row in time_setting(model, setting, a.runs)]
    machine = describe_machine() | {"note": a.note}
    print(markdown(machine, rows))
    if a.out:
        write_record(a.out, {"machine": machine, "rows": rows})
    if a.readme:
        write_between_markers(a.readme, "first-rungs", markdown(machine, rows))


if __name__ == "__main__":
    main()
