"""Where drafts pay on this machine: tokens a second with drafts and without, in turn, and how many were accepted.

    python benchmarks/drafts.py --out benchmarks/results/drafts-cpu.json --readme benchmarks/README.md

GPT-2 has its published shape and random weights. With a bias it repeats one token, so every guess of a lookup is right.
Its samples repeat nothing, so a lookup finds nothing to guess by, and only costs. These are the two ends. tiny-gpt2 and
its draft tiny-gpt2-mqa are trained: the draft has four layers, and the model six. Greedy tokens are compared before
anything is timed. Plan fast, one thread for each core. Takes about a minute. Prints the medians, a line for each work;
writes them into --readme between the marks drafts, and all figures to --out.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Any

import numpy as np
from flags import file_to_write
from readme import with_marks, write_between_markers
from records import write_record

import minidecode as md
from minidecode.bench.compare import describe_machine

NEW, PROMPT, RUNS = 48, 64, 5
LOOKUP = {"prompt_lookup_num_tokens": 6}
ONE_TOKEN, SAMPLED = {"sequence_bias": {(7,): 1e4}}, {"do_sample": True, "top_k": 0}


def works() -> list[tuple[str, md.Model, dict[str, Any], dict[str, Any], int]]:
    """(name, model, options, options of the drafts, texts) of each work."""
    gpt2 = md.load("gpt2", random_weights=True, plan="fast")
    tiny, draft = md.load("tiny-gpt2", plan="fast"), md.load("tiny-gpt2-mqa", plan="fast")
    found = []
    for B in (1, 8):
        found += [
            (f"gpt2, always right, lookup, {B} x {PROMPT}", gpt2, ONE_TOKEN, LOOKUP, B),
            (f"gpt2, nothing to guess by, lookup, {B} x {PROMPT}", gpt2, SAMPLED, LOOKUP, B),
            (f"tiny-gpt2, greedy, lookup, {B} x {PROMPT}", tiny, {"no_repeat_ngram_size": 0}, LOOKUP, B),
            (f"tiny-gpt2, greedy, tiny-gpt2-mqa drafts, {B} x {PROMPT}", tiny, {}, {"draft": draft}, B),
        ]
    return found


def seconds(model: md.Model, **options: Any) -> tuple[float, md.Output]:
    started = time.perf_counter()
    out = model.generate(max_new_tokens=NEW, eos_token_id=None, **options)
    return time.perf_counter() - started, out


def measure_work(model: md.Model, options: dict[str, Any], how: dict[str, Any], B: int) -> dict[str, float]:
    """Tokens a second without drafts and with them, in turn."""
    top = model.config.vocab_size
    options = options | {"input_ids": np.random.default_rng(0).integers(5, top, (B, PROMPT))}
    (_, plain), (_, drafted) = seconds(model, **options), seconds(model, **options, **how)
    same = sum(np.array_equal(a, b) for a, b in zip(plain.token_ids, drafted.token_ids, strict=True))
    assert same == B or "do_sample" in options, f"{B - same} of {B} texts differ"
    times = [(seconds(model, **options)[0], seconds(model, **options, **how)[0]) for _ in range(RUNS)]
    ratios = [a / b for a, b in times]
    return {
        "tokens_per_second": B * NEW / median(a for a, _ in times),
        "with_drafts": B * NEW / median(b for _, b in times),
        "ratio": median(ratios), "least": min(ratios), "most": max(ratios),
        "accepted": drafted.receipt.drafts.accepted / max(drafted.receipt.drafts.drafted, 1),
        "drafted": drafted.receipt.drafts.drafted, "steps": drafted.receipt.steps, "same": same,
    }  # fmt: skip


def markdown(record: dict[str, Any]) -> str:
    """A line for each work."""
    lines = ["| work | tokens/s | with drafts | ratio | guesses accepted | steps |", "|---|---|---|---|---|---|"]
    for name, row in record["works"].items():
        accepted = f"{row['accepted']:.0%} of {row['drafted']}" if row["drafted"] else "none made"
        lines.append(f"| {name} | {row['tokens_per_second']:,.0f} | {row['with_drafts']:,.0f} | {row['ratio']:.2f}x "
                     f"({row['least']:.2f}-{row['most']:.2f}) | {accepted} | {row['steps']} |")  # fmt: skip
    where = "{processor}, {cores} cores, NumPy {numpy}, Numba {numba}".format(**record["machine"])
    return "\n".join([*lines, "", f"{where}. {NEW} new tokens; medians of {RUNS} turns."])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    p.add_argument("--readme", type=with_marks("drafts"), help="file whose table between the marks drafts is replaced")
    a = p.parse_args()
    rows = {}
    for name, *work in works():
        rows[name] = row = measure_work(*work)
        print(f"{name:<52}{row['tokens_per_second']:7.0f}{row['with_drafts']:7.0f} tokens/s, {row['ratio']:.2f}x "
              f"({row['least']:.2f}-{row['most']:.2f}), {row['accepted']:.0%} accepted", flush=True)  # fmt: skip
    record = {"machine": describe_machine(), "works": rows}
    if a.readme:
        write_between_markers(a.readme, "drafts", markdown(record))
    if a.out:
        write_record(a.out, record)


if __name__ == "__main__":
    main()
