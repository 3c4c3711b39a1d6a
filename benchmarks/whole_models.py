"""FastSeq's Table 1 and EL's Table 2: whole models, what the papers start from and what their tricks make of them.

    python benchmarks/whole_models.py --out benchmarks/results/whole-models-cpu.json --readme docs/tables.md

Each model generates under four plans, by turns: the papers' baseline (a cache copied for every beam, the naive n-gram
ban, elementary operations one by one), FastSeq's two tricks on top of it (split caches, the compiled ban), EL's, and
all that is fast here. Tokens must be those of the baseline before anything is timed; where random weights make a tie,
sentences that differ are counted, and none may differ in the trained models. A sample is a sentence.

What cannot be repeated here stands in docs/tables.md, which says where the papers' other tables are. Shapes are those
of FastSeq's seven published models with random weights, and texts random tokens, or the bundled models and texts. On a
CPU the share of products is larger than on the papers' V100, so FastSeq's ratios are smaller; EL, which computes more
to move less, gains about as much as the shared caches or less.

Takes about ten minutes. Prints the table; writes it into --readme between the marks whole-models, and all figures to
--out.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
from flags import file_to_write, positive
from readme import with_marks, write_between_markers
from records import write_record

import minidecode as md
from minidecode.bench.compare import describe_machine

PLANS = {
    "baseline": "naive,cache=replicated",
    "FastSeq": "naive,cache=split,split=reference,reorder=reference,ngram=cpu",
    "EL": "naive,cache=el,el_split=reference,reorder=reference,ngram=cpu",
    "all": "fast",
}
BESIDE_A_SOURCE = {  # a decoder that sees a source has other ops
    "FastSeq": ",shared=reference", "EL": "naive,cache=el,el=reference,split=reference,reorder=reference,ngram=cpu",
}  # fmt: skip
MODELS = {  # name -> (batch, input tokens, new tokens); beams and n-grams are the papers'
    "tiny-gpt2": (4, 128, 24), "tiny-bart": (8, 64, 24),
    # FastSeq's seven, and the shapes of EL that fit a laptop.
    "bart-large": (2, 256, 8), "distilbart-12-6": (2, 256, 8), "prophetnet-large-uncased-cnndm": (2, 256, 8),
    "t5-base": (2, 128, 8), "unilm1.2-base-uncased": (2, 256, 8), "gpt2": (2, 256, 8),
    "transformer_vaswani_wmt_en_de_big": (4, 32, 16), "bart-base": (2, 256, 8),
}  # fmt: skip
PAPER = {  # FastSeq's Table 1: its speed over its baseline's on a V100, from the largest factor to the smallest
    "unilm1.2-base-uncased": ("UniLM", 9.6), "bart-large": ("BART", 7.7), "gpt2": ("GPT-2", 5.5),
    "distilbart-12-6": ("DistilBART", 5.4), "t5-base": ("T5", 4.3),
    "transformer_vaswani_wmt_en_de_big": ("Transformer (WMT)", 4.3),
    "prophetnet-large-uncased-cnndm": ("ProphetNet", 3.8),
}  # fmt: skip
ON_DEVICE = {  # the baseline bans n-grams on the host and keeps a cache a beam, as FairSeq; no step is captured
    "baseline": "cuda,cache=replicated,cache_dtype=float16,ngram=naive,epilogue=off,hars=off,graphs=off",
    "FastSeq": "cuda,cache=split,cache_dtype=float16,epilogue=off,hars=off,graphs=off",
    "EL": "cuda,cache=el,epilogue=off,hars=off,graphs=off",
    "all": "cuda,cache_dtype=float16",
}
KNOWN_IDS = 100, 28_000  # that are words in every vocabulary here
TEXT = "Fellow citizens of the Senate and of the House of Representatives, the state of the Union is good. "


def plans_of(model: md.Model) -> dict[str, str]:
    if not model.has_encoder:  # UniLM reads its source in the same layers, as GPT-2 reads a prompt
        return PLANS
    return PLANS | {"FastSeq": PLANS["FastSeq"] + BESIDE_A_SOURCE["FastSeq"], "EL": BESIDE_A_SOURCE["EL"]}


def inputs_of(model: md.Model, batch: int, length: int) -> list[np.ndarray]:
    if model.tokenizer is None:
        return list(np.random.default_rng(0).integers(*KNOWN_IDS, (batch, length)))
    ids = np.resize(model.tokenizer.encode(TEXT), length + batch)
    return [ids[i : i + length] for i in range(batch)]


def measure(name: str, sizes: tuple[int, int, int], runs: int) -> dict:
    is_trained = name in md.bundled_models()
    model = md.load(name, plan="linear=cpu", random_weights=not is_trained)
    return compare_plans(name, model, inputs_of(model, *sizes[:2]), sizes[2], plans_of(model), runs, is_trained)


def compare_plans(
    name: str, model: md.Model, ids: list, new: int, plans: dict[str, str], runs: int, is_trained: bool,
    **options: Any,
) -> dict:  # fmt: skip
    """Each plan by turns, the first of them the baseline. The texts are as many as `ids`, all of one length."""
    batch, length = len(ids), len(ids[0])
    options = {"num_beams": 4, "no_repeat_ngram_size": 3, "max_new_tokens": new, "min_new_tokens": new} | options
    outs = {label: model.generate(input_ids=ids, plan=plan, **options) for label, plan in plans.items()}
    tokens = {label: [t.tolist() for t in out.token_ids] for label, out in outs.items()}
    first = next(iter(plans))
    different = {label: sum(a != b for a, b in zip(t, tokens[first], strict=True)) for label, t in tokens.items()}
    if is_trained and any(different.values()):
        raise SystemExit(f"{name}: the plans disagree ({different}), so nothing is timed")
    seconds: dict[str, list[float]] = {label: [] for label in plans}
    for turn in range(runs):
        for label in np.random.default_rng(turn).permutation(list(plans)).tolist():
            started = time.perf_counter()
            model.generate(input_ids=ids, plan=plans[label], **options)
            seconds[label].append(time.perf_counter() - started)
    base = seconds[first]
    return {
        "model": name, "batch": batch, "input_tokens": length, "new_tokens": new, "plans": {
            label: {"plan": plans[label], "samples_per_second": round(batch / statistics.median(s), 3),
                    "seconds": [round(x, 4) for x in sorted(s)], "different_sentences": different[label],
                    "speedup": round(statistics.median(a / b for a, b in zip(base, s, strict=True)), 2),
                    "memory_bytes": outs[label].receipt.cache_peak_bytes}
            for label, s in seconds.items()
        },
    }  # fmt: skip


def table(record: dict) -> str:
    lines = [f"| model (batch, input, new) | {' | '.join(PLANS)} |", "|---" * (1 + len(PLANS)) + "|"]
    lines += map(line, record["whole_models"])
    m = record["machine"]
    machine = f"{m['cores']} cores ({m['processor']}), NumPy {m['numpy']}. {record['note']}".strip()
    what = (
        "Samples per second (over the baseline, bytes of memory); beam 4, n-gram 3. Rates are medians of all turns, "
        "and factors are medians of the factors of each turn"
    )
    return "\n".join([*lines, "", f"{what}; {machine}", *beside_the_paper(record["whole_models"])])


def beside_the_paper(rows: list[dict]) -> list[str]:
    """FastSeq's factors beside those here, in the paper's order: a table, if its models are there."""
    measured = {row["model"]: row["plans"] for row in rows}
    if not PAPER.keys() <= measured.keys():
        return []
    head = ["model", "FastSeq over its baseline, V100, paper", "FastSeq's two techniques here", "all techniques here"]
    lines = ["", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for model, (name, factor) in PAPER.items():
        here = (f"{measured[model][label]['speedup']:.2f}x" for label in ("FastSeq", "all"))
        lines.append(f"| {name} | {factor}x | {' | '.join(here)} |")
    return lines


def line(row: dict) -> str:
    """A model's line of the table."""
    cells = [f"{p['samples_per_second']:.2f} ({p['speedup']:.2f}x, {p['memory_bytes'] / 1e6:.1f} MB)"
             for p in row["plans"].values()]  # fmt: skip
    size = f"{row['batch']}, {row['input_tokens']}, {row['new_tokens']}"
    return f"| {row['model']} ({size}) | {' | '.join(cells)} |"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS), metavar="NAME")
    p.add_argument("--runs", type=positive, default=3, help="turns that are timed")
    p.add_argument("--shrink", type=positive, default=1, help="divide batch and lengths by it")
    p.add_argument("--note", default="", help="what a reader should know of the machine")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    p.add_argument(
        "--readme", type=with_marks("whole-models"), help="file whose table between the marks whole-models is replaced"
    )
    a = p.parse_args()
    rows = []
    for name in a.models:
        rows.append(measure(name, tuple(max(2, size // a.shrink) for size in MODELS[name]), a.runs))
        print(line(rows[-1]), flush=True)
    machine = describe_machine()
    record = {"machine": machine, "note": a.note, "whole_models": rows}
    print(table(record))
    if a.out:
        write_record(a.out, record)
    if a.readme:
        write_between_markers(a.readme, "whole-models", table(record))


if __name__ == "__main__":
    main()
