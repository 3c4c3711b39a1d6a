"""Shazeer 2019's Tables 3 and 1 in miniature: what multi-query and local attention cost in quality.

    python weights/train_variants.py gpt2 TEXTS --gpt2 weights/tiny-gpt2 --out runs/multi-query
    python weights/train_variants.py bart TEXTS --gpt2 weights/tiny-gpt2 --out runs/multi-query
    python benchmarks/multi_query_quality.py runs/multi-query/results.jsonl --out benchmarks/results/multi-query-quality.json

Reads the runs and prints the paper's rows beside ours: means over the seeds, the least and the largest in brackets.
Two rows are told apart only where all seeds of one lie below all seeds of the other; the others are inside the spread
of the seeds, and are not ranked.

Takes a second: what takes hours is the training. Prints the tables; writes them to --out.
"""  # noqa: E501 (a command in one line)

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
from collections import defaultdict
from pathlib import Path

from flags import file_to_read, file_to_write
from records import write_record

from minidecode.bench.compare import describe_machine

BASELINE = "multi-head"
ORDER = ("multi-head", "multi-query", "multi-head local", "multi-query local", "h=1", "h=2", "h=4", "h=8")
# Of the paper: Table 3 has perplexity per word (dev), Table 1 ln(perplexity per subword) and BLEU (dev).
PAPER = {
    "gpt2": {"multi-head": (8192, 29.9), "multi-query": (9088, 30.2), "h=1": (9984, 31.2), "h=2": (9984, 31.1),
             "h=4": (9984, 31.0), "h=8": (9984, 30.9)},
    "bart": {"multi-head": (4096, 1.424, 26.7), "multi-query": (5440, 1.439, 26.5),
             "multi-head local": (4096, 1.427, 26.6), "multi-query local": (5440, 1.437, 26.5),
             "h=1": (6784, 1.518, 25.8), "h=2": (6784, 1.480, 26.2), "h=4": (6784, 1.488, 26.1),
             "h=8": (6784, 1.513, 25.8)},
}  # fmt: skip
TITLES = {"gpt2": "Table 3, GPT-2 in miniature", "bart": "Table 1, BART in miniature: text infilling, not translation"}
# name -> (heading, digits, what one is multiplied with)
MEASURES = {
    "ln_ppl": ("ln(PPL)", 4, 1), "bits_per_byte": ("bits per byte", 4, 1), "hidden_right": ("hidden right, %", 1, 100),
    "bleu": ("BLEU", 1, 1), "rougeL": ("ROUGE-L", 1, 1),
}  # fmt: skip


def read_runs(path: Path, family: str) -> dict[str, list[dict]]:
    """Variant -> its runs, of the seeds that all variants have. Stops where budgets differ."""
    by_variant: dict[str, list[dict]] = defaultdict(list)
    try:
        for run in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            if run["family"] == family:
                by_variant[run["variant"]].append(run)
    except (ValueError, KeyError, TypeError):
        raise SystemExit(f"{path} holds no runs: weights/train_variants.py writes them") from None
    if len({json.dumps(run["budget"]) for mine in by_variant.values() for run in mine}) > 1:
        raise SystemExit(f"the runs of {family} in {path} had different budgets: they cannot be compared")
    if by_variant and BASELINE not in by_variant:
        raise SystemExit(f"{path} has no run of {BASELINE} of {family}: train it too")
    seeds = set.intersection(*({run["seed"] for run in mine} for mine in by_variant.values())) if by_variant else set()
    if by_variant and len(seeds) < 2:
        raise SystemExit(f"{len(seeds)} seeds of {family} in {path} were trained for all variants: two show a spread")
    return {v: [run for run in by_variant[v] if run["seed"] in seeds] for v in ORDER if v in by_variant}


def ranges_differ(a: list[float], b: list[float]) -> bool:
    """Whether the ranges of the seeds do not touch."""
    return max(a) < min(b) or max(b) < min(a)


def verdict(values: list[float], baseline: list[float]) -> str:
    """Against the baseline, lower being better."""
    if values is baseline:
        return ""
    difference = f"{statistics.mean(values) - statistics.mean(baseline):+.4f}"
    if not ranges_differ(values, baseline):
        return f"{difference}: inside the spread"
    return f"{difference}: {'worse' if min(values) > max(baseline) else 'better'}"


def summary(runs: dict[str, list[dict]], family: str) -> dict:
    """What is written to JSON: a row for each variant, and the pairs that cannot be told apart by ln(PPL)."""
    losses = {variant: [run["ln_ppl"] for run in mine] for variant, mine in runs.items()}
    rows = []
    for variant, mine in runs.items():
        measured = {name: [run[name] for run in mine] for name in MEASURES if name in mine[0]}
        rows.append({
            "variant": variant, **{key: mine[0][key] for key in ("H", "K", "F", "parameters")},
            **{name: {"mean": statistics.mean(x), "min": min(x), "max": max(x)} for name, x in measured.items()},
            "against_multi_head": verdict(losses[variant], losses[BASELINE]),
            "minutes": [round(run["seconds"] / 60, 1) for run in mine], "paper": PAPER[family].get(variant),
        })  # fmt: skip
    first = next(iter(runs.values()))
    pairs = itertools.combinations(runs, 2)
    return {
        "budget": first[0]["budget"], "seeds": sorted(run["seed"] for run in first), "rows": rows,
        "inside_the_spread": [[a, b] for a, b in pairs if not ranges_differ(losses[a], losses[b])],
    }  # fmt: skip


def paper_cells(family: str, variant: str) -> list[str]:
    """d_ff, ln(PPL), its difference from the baseline's, BLEU where there is one."""
    if variant not in PAPER[family]:
        return ["", "", "", ""][: 3 + (family == "bart")]
    F, ppl, *bleu = PAPER[family][variant]
    loss, baseline = (math.log(x) if family == "gpt2" else x for x in (ppl, PAPER[family][BASELINE][1]))
    return [str(F), f"{loss:.3f}", f"{loss - baseline:+.3f}" if variant != BASELINE else "", *map(str, bleu)]


def markdown(family: str, record: dict) -> str:
    """The table, the budget, and the pairs inside the spread."""
    measures = [name for name in MEASURES if name in record["rows"][0]]
    paper = ["paper: d_ff", "ln(PPL)", "against multi-head", *(["BLEU"] if family == "bart" else [])]
    heads = ["attention", "h", "d_k, d_v", "d_ff", "parameters", *(MEASURES[m][0] for m in measures),
             "ln(PPL) against multi-head", *paper]  # fmt: skip
    lines = [f"### {TITLES[family]}\n", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in record["rows"]:
        cells = [row["variant"], row["H"], row["K"], row["F"], f"{row['parameters']:,}"]
        for name in measures:
            _, digits, factor = MEASURES[name]
            mean, least, most = (f"{factor * row[name][key]:.{digits}f}" for key in ("mean", "min", "max"))
            cells.append(f"{mean} ({least}..{most})")
        cells += [row["against_multi_head"], *paper_cells(family, row["variant"])]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    b, n = record["budget"], len(record["seeds"])
    minutes = [m for row in record["rows"] for m in row["minutes"]]
    lines.append(
        f"\n{b['steps']:,} steps, {b['tokens']:,} tokens a run, {min(minutes):.1f} to {max(minutes):.1f} minutes; "
        f"{n} seeds: mean (least..largest)."
    )
    pairs = ", ".join(f"{a} / {b}" for a, b in record["inside_the_spread"]) or "none"
    lines.append(
        f"Pairs whose ln(PPL) differs by no more than the spread of the seeds: {pairs}. The seeds of two models "
        f"of the same worth part by chance in one of {math.comb(2 * n, n) // 2} pairs: of all orders of {2 * n} "
        "numbers, two have one model's first."
    )
    return "\n".join(lines)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("runs", type=file_to_read, help="results.jsonl of weights/train_variants.py")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    a = p.parse_args()
    results = {}
    for family in PAPER:
        if runs := read_runs(a.runs, family):
            results[family] = summary(runs, family)
            print(markdown(family, results[family]) + "\n")
    machine = describe_machine()
    if a.out:
        write_record(a.out, {"machine": machine, **results})


if __name__ == "__main__":
    main()
