"""LightSeq's Figures 4, 5 and 6 on this CPU: where the time goes, and how much faster beam search and sampling become.

    python benchmarks/lightseq.py --out benchmarks/results/lightseq-cpu.json

Figure 4: shares of products, cache refreshing and the rest, by the receipt. Figure 5: beam search (4 beams) by an
encoder-decoder of the paper's size, (batch, length). Figure 6: top-k and top-p sampling by a decoder of that size.
Three plans: "naive", an operation at a time and caches that are copied, as frameworks did it, with the same BLAS as
the others; "default", a cache and NumPy's code; "compiled", `fast`: all that has won here. Weights are random,
texts have a fixed length. Plans run by turns; speedups are medians of the ratios of a turn, with the least and most.

Takes six to seven minutes, with --small some seconds. Prints the tables; writes all figures to --out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from flags import file_to_write, positive
from records import write_record
from rich.console import Console
from rich.progress import track

import minidecode as md
from minidecode.bench.compare import describe_machine
from minidecode.runtime.receipt import Receipt

BASE = {"width": 512, "heads": 8, "ffn": 2048, "layers": 6, "vocabulary": 50_000}  # Transformer base, section 3.1
SMALL = {"width": 32, "heads": 2, "ffn": 64, "layers": 1, "vocabulary": 200}
SETTINGS = [(1, 16), (1, 64), (8, 16), (8, 64), (32, 16)]  # (batch, length), as the figures' x-axes
SAMPLING = [{"top_k": 4, "top_p": 1.0}, {"top_k": 32, "top_p": 1.0}, {"top_k": 0, "top_p": 0.75}]
REFRESH = (
    "reorder_cache",
    "gather_rows",
    "concat_step",
    "update_indirection",
)  # what moves keys and values when beams move or time passes
PLANS = {"naive": "naive,cache=replicated", "default": "numpy", "compiled": "fast"}
ON_DEVICE = {  # launches one by one, a kernel for each operation; the cache of beams; and all that is fast there
    "naive": "cuda,cache=replicated,cache_dtype=float16,epilogue=off,hars=off,graphs=off",
    "default": "cuda,cache_dtype=float16,graphs=off", "compiled": "cuda,cache_dtype=float16",
}  # fmt: skip


def make_model(kind: str, shape: dict, context: int, **how: str) -> md.Model:
    """A model of this shape with random weights. how: plan, dtype and device, in place of compiled code for the CPU."""
    D, H, F, L, V = (shape[key] for key in ("width", "heads", "ffn", "layers", "vocabulary"))
    if kind == "gpt2":
        fields = {"model_type": "gpt2", "vocab_size": V, "n_embd": D, "n_head": H, "n_layer": L, "n_inner": F,
                  "n_positions": context, "eos_token_id": 2, "bos_token_id": 2}  # fmt: skip
    else:
        fields = {"model_type": "bart", "vocab_size": V, "d_model": D, "max_position_embeddings": context,
                  "encoder_layers": L, "decoder_layers": L, "encoder_attention_heads": H, "decoder_attention_heads": H,
                  "encoder_ffn_dim": F, "decoder_ffn_dim": F, "activation_function": "relu", "eos_token_id": 2,
                  "decoder_start_token_id": 2, "pad_token_id": 1}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(fields), encoding="utf-8")
        return md.load(folder, random_weights=True, **(how or {"plan": "fast"}))  # weights lie as the plan wants them


def shares_of_seconds(receipt: Receipt) -> dict[str, float]:
    """Percent of the generation's seconds: products, cache refreshing, other ops, and what is in no op (Python)."""
    whole, ops = sum(receipt.seconds.values()), receipt.ops
    parts = {
        "products": sum(c.seconds for name, c in ops.items() if name == "linear"),
        "cache refreshing": sum(c.seconds for name, c in ops.items() if name in REFRESH),
    }
    parts["other ops"] = sum(c.seconds for c in ops.values()) - sum(parts.values())
    parts["between ops"] = whole - sum(parts.values())
    return {name: round(100 * seconds / whole, 1) for name, seconds in parts.items()}


def time_setting(model: md.Model, plans: dict[str, str], B: int, N: int, options: dict, runs: int) -> dict:
    """Seconds of each plan by turns, their ratios to the naive one, and where the time of the last run went."""
    ids_BN = np.random.default_rng(0).integers(3, model.config.vocab_size, (B, N))
    options = {"max_new_tokens": N, "min_new_tokens": 0, "eos_token_id": None, "no_repeat_ngram_size": 0} | options
    seconds, receipts, tokens = {plan: [] for plan in plans}, {}, {}
    for turn in range(runs + 1):  # the first, which compiles, is not counted
        for name, plan in plans.items():
            started = time.perf_counter()
            out = model.generate(input_ids=ids_BN, plan=plan, **options)
            if turn:
                seconds[name].append(time.perf_counter() - started)
            receipts[name], tokens[name] = out.receipt, [t.tolist() for t in out.token_ids]
    speedups = {}
    for name, mine in seconds.items():
        ratios = [naive / s for naive, s in zip(seconds["naive"], mine, strict=True)]
        speedups[name] = [round(x, 2) for x in (statistics.median(ratios), min(ratios), max(ratios))]
    return {
        "batch": B, "length": N, "options": options,
        "seconds": {name: round(statistics.median(s), 4) for name, s in seconds.items()},
        "speedup": speedups,
        "equal_tokens": {name: tokens[name] == tokens["naive"] for name in plans},
        "percent": {name: shares_of_seconds(receipt) for name, receipt in receipts.items()},
    }  # fmt: skip


def table(rows: list[dict]) -> str:
    """A line a setting: speedup of each plan over the naive one (least to most), and whether tokens are the same."""
    lines = ["| work | naive, s | default | compiled | same tokens |", "|---|---|---|---|---|"]
    for r in rows:
        o = r["options"]
        work = "beam 4" if "num_beams" in o else f"top-k {o['top_k']}" if o["top_k"] else f"top-p {o['top_p']}"
        cells = [
            f"{m:.2f}x ({low:.2f}-{high:.2f})" for m, low, high in (r["speedup"][p] for p in ("default", "compiled"))
        ]
        same = "yes" if all(r["equal_tokens"].values()) else "no"
        beginning = f"| {work}, ({r['batch']}, {r['length']}) | {r['seconds']['naive']:.2f}"
        lines.append(f"{beginning} | {' | '.join(cells)} | {same} |")
    return "\n".join(lines)


def shares_table(row: dict) -> str:
    """Figure 4: a line a plan."""
    names = list(next(iter(row["percent"].values())))
    lines = [f"| plan | {' | '.join(f'{n}, %' for n in names)} |", "|---" * (len(names) + 1) + "|"]
    lines += [f"| {plan} | {' | '.join(str(part[n]) for n in names)} |" for plan, part in row["percent"].items()]
    return "\n".join(lines)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--small", action="store_true", help="a toy, to see that everything runs")
    p.add_argument("--runs", type=positive, default=3, help="turns that are timed")
    p.add_argument("--note", default="", help="what else ran on the machine meanwhile")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    a = p.parse_args()
    shape, settings = (SMALL, [(1, 4), (2, 5)]) if a.small else (BASE, SETTINGS)
    context = 2 * max(N for _, N in settings) + 2
    beams = [("bart", s, {"num_beams": 4}) for s in settings]
    sampled = [("gpt2", s, {"do_sample": True, "seed": 1} | o) for o in SAMPLING for s in settings]
    models = {kind: make_model(kind, shape, context) for kind in ("bart", "gpt2")}
    rows: dict[str, list[dict]] = {kind: [] for kind in models}
    for kind, (B, N), options in track(beams + sampled, "timing", console=Console(stderr=True), transient=True):
        rows[kind].append(time_setting(models[kind], PLANS, B, N, options, a.runs))
    of_figure_4 = rows["bart"][settings.index((8, 64)) if (8, 64) in settings else -1]
    print(f"Figure 4, batch {of_figure_4['batch']}, length {of_figure_4['length']}\n\n{shares_table(of_figure_4)}\n")
    print(f"Figure 5\n\n{table(rows['bart'])}\n\nFigure 6\n\n{table(rows['gpt2'])}")
    if a.out:
        machine = describe_machine() | {"note": a.note}
        record = {"machine": machine, "shape": shape, "plans": PLANS, "figure_4": of_figure_4["percent"],
                 "figure_5": rows["bart"], "figure_6": rows["gpt2"]}  # fmt: skip
        write_record(a.out, record)


if __name__ == "__main__":
    main()
