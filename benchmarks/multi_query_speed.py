"""The shape of the multi-query paper's Table 2: time per token of the encoder and of incremental decoding.

    python benchmarks/multi_query_speed.py --out benchmarks/results/multi-query-speed-cpu.json

Multi-head and multi-query attention, each whole and local (a window of 32 in the decoder's self-attention), greedy and
with a beam of 4; the feed-forward part is widened as in the paper, so that parameters are equal. Every variant runs
with caches that have room from the start (for all positions, or for the window) and with growing ones, which keep all
positions and hide those outside of the window, so that they gain nothing from it.
Weights are random: how long a token takes does not depend on what it says. Runs are interleaved; figures are medians,
with the fastest and slowest beside them. `--paper` takes the paper's shapes (for a GPU, or for patience).

A second table holds the ratio of memory access to arithmetic: the paper's order of growth, the numbers that its
listing's einsums move, and what was handed in and out of the ops of one layer's self-attention over all steps (of a
cache with room all of it, as the paper's footnote 1 reads it).

A third times that footnote: attention of the first, middle and last steps over a cache padded to its full length and
masked ("each decoding step thus took the same amount of time"), over the written part of it, which is what our caches
with room read, and over one that grows by copying.

Takes seven minutes or more, with --paper far more. Prints the tables; writes all figures to --out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from itertools import product
from pathlib import Path

import numpy as np
from flags import file_to_write, positive
from records import write_record
from rich.console import Console
from rich.progress import track

import minidecode as md
from minidecode.bench.compare import describe_machine, time_by_turns
from minidecode.bench.multi_query_costs import PAPER_RATIOS, cost_of_n_positions
from minidecode.plan import CACHES, Plan
from minidecode.reference.append import write_positions
from minidecode.reference.common.softmax import softmax
from minidecode.reference.grouped import attend
from minidecode.reference.move import concat_step
from minidecode.runtime.receipt import CountedOps

WINDOW = 32
PAPER = {"width": 1024, "heads": 8, "ffn": 4096, "layers": 6, "vocabulary": 32_000}
LAPTOP = {"width": 512, "heads": 8, "ffn": 2048, "layers": 3, "vocabulary": 8192}
# Variant -> (memory of fixed shape, memory that grows). A window needs room for the window alone.
VARIANTS = {
    "multi-head": ("preallocated", "replicated"),
    "multi-query": ("preallocated", "replicated"),
    "multi-head local": ("rolling", "replicated"),
    "multi-query local": ("rolling", "replicated"),
}
PAPERS_FIGURES = {  # TPUv2 microseconds per output token, encoder + decoder, greedy and beam 4 (Table 2)
    "multi-head": [(1.7, 46), (2.0, 203)], "multi-query": [(1.5, 3.8), (1.6, 32)],
    "multi-head local": [(1.7, 23), (1.9, 47)], "multi-query local": [(1.5, 3.3), (1.6, 16)],
}  # fmt: skip


def make_model(variant: str, shape: dict, context: int, **how: str) -> md.Model:
    """A BART of this shape with random weights, its attention as the variant has it. how: dtype and device."""
    D, H = shape["width"], shape["heads"]
    is_multi_query = "multi-query" in variant
    # A layer of both stacks has 3 attentions and 2 feed-forward parts; each attention saves 2 D (D - D/H) weights.
    ffn = shape["ffn"] + (3 * (D - D // H) // 2 if is_multi_query else 0)
    fields = {
        "model_type": "bart", "vocab_size": shape["vocabulary"], "d_model": D, "max_position_embeddings": context,
        "encoder_layers": shape["layers"], "decoder_layers": shape["layers"], "encoder_attention_heads": H,
        "decoder_attention_heads": H, "encoder_ffn_dim": ffn, "decoder_ffn_dim": ffn, "activation_function": "relu",
        "eos_token_id": 2, "decoder_start_token_id": 2, "pad_token_id": 1,
    }  # fmt: skip
    if is_multi_query:
        fields["num_key_value_heads"] = 1
    if "local" in variant:
        fields["attention_window"] = WINDOW
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(fields), encoding="utf-8")
        return md.load(folder, random_weights=True, **how)


def time_once(model: md.Model, plan: str, ids_BN: np.ndarray, beams: int, steps: int) -> tuple[float, float]:
    """(microseconds per source token in the encoder, per new token of a sentence in the decoder)."""
    options = {"num_beams": beams, "max_new_tokens": steps, "min_new_tokens": steps, "no_repeat_ngram_size": 0}
    receipt = model.generate(input_ids=ids_BN, plan=plan, **options).receipt
    B, N = ids_BN.shape
    seconds = receipt.seconds
    return 1e6 * seconds["encoder"] / (B * N), 1e6 * (seconds["prefill"] + seconds["steps"]) / (B * steps)


def numbers_per_operation(model: md.Model, variant: str, b: int, n: int) -> dict:
    """Numbers moved per operation of n steps of one decoder layer's self-attention, for b sentences."""
    c = model.config
    listing = f"{'multiquery' if 'query' in variant else 'multihead'}_self_attention_incremental"
    counted = cost_of_n_positions(listing, b, n, c.d_model, c.decoder_attention_heads, number_bytes=1)
    row = {"variant": variant, "batch": b, "length": n,
           "paper_order": PAPER_RATIOS[listing](b, n, c.d_model, c.decoder_attention_heads),
           "listing": counted.bytes / counted.operations}  # fmt: skip
    for cache_name in VARIANTS[variant]:
        ops, block = CountedOps(Plan().resolve()[0]), model.weights.decoder.blocks[0]
        cache = CACHES[cache_name](block, np.arange(b + 1))
        x_RD = np.random.default_rng(0).standard_normal((b, c.d_model), np.float32)
        for step in range(n):
            if step == 1:
                cache.expand(ops, 1, n - 1)
            q_RHK = cache.append(ops, ops.linear(x_RD, block.qkv), x_RD)
            ops.linear(cache.attend(ops, q_RHK), block.out)
        moved = sum(count.bytes for name, count in ops.counts().items()) / 4
        row[cache_name] = moved / counted.operations
    return row


def attend_padded(q_RHK, k_RGMK, v_RGMU, end_R, scale):
    """Footnote 1: every step over all positions there will ever be, those not written yet under a mask."""
    (R, H, K), (_, G, M, _), U = q_RHK.shape, k_RGMK.shape, v_RGMU.shape[3]
    scores_RGXM = scale * (q_RHK.reshape(R, G, H // G, K) @ k_RGMK.swapaxes(2, 3))
    scores_RGXM[np.broadcast_to(np.arange(M) >= end_R[:, None, None, None], scores_RGXM.shape)] = -np.inf
    return (softmax(scores_RGXM) @ v_RGMU).reshape(R, H * U)


def ways_of_a_step(R: int, H: int, G: int, K: int, length: int, step: int) -> dict:
    """Way to keep a cache -> (function, ()) that appends position `step` and attends to all positions up to it."""
    rng = np.random.default_rng(0)
    q_RHK, new_RGK = (rng.standard_normal((R, heads, K), np.float32) for heads in (H, G))
    cache = [rng.standard_normal((R, G, length, K), np.float32) for _ in range(2)]
    grown = [m_RGMK[:, :, :step].copy() for m_RGMK in cache]
    begin_R, at_R, scale = np.zeros(R, np.int64), np.full(R, step), K**-0.5

    def write_step():
        for m_RGMK in cache:
            write_positions(m_RGMK, new_RGK, at_R)

    def padded():
        write_step()
        return attend_padded(q_RHK, *cache, at_R + 1, scale)

    def written_part():
        write_step()
        return attend(q_RHK, *cache, begin_R, at_R + 1, scale)

    def growing():
        return attend(q_RHK, *(concat_step(m_RGMK, new_RGK) for m_RGMK in grown), begin_R, at_R + 1, scale)

    return {"padded": (padded, ()), "written part": (written_part, ()), "growing": (growing, ())}


def footnote_1(shape: dict, batch: int, length: int, runs: int) -> list[dict]:
    """Milliseconds of one layer's self-attention in an early, a middle and the last step."""
    H, K, rows = shape["heads"], shape["width"] // shape["heads"], []
    for variant, G in (("multi-head", H), ("multi-query", 1)):
        for step in (1, length // 2, length - 1):
            calls = ways_of_a_step(batch, H, G, K, length, step)
            results = [function() for function, _ in calls.values()]
            if not all(np.allclose(result, results[0], atol=1e-4) for result in results):
                raise SystemExit(f"the caches disagree at step {step}: nothing is timed")
            times = {t.implementation: [round(1e3 * x, 4) for x in (t.median, t.fastest, t.slowest)]
                     for t in time_by_turns(calls, runs)}  # fmt: skip
            rows.append({"variant": variant, "batch": batch, "length": length, "step": step, "milliseconds": times})
    return rows


def footnote_table(rows: list[dict]) -> str:
    lines = [f"{'variant':<12} {'step':>5} {'padded':>24} {'written part':>24} {'growing':>24}"]
    for r in rows:
        cells = [f"{m:.3f} ({low:.3f}-{high:.3f})" for m, low, high in r["milliseconds"].values()]
        lines.append(f"{r['variant']:<12} {r['step']:>5} " + " ".join(f"{cell:>24}" for cell in cells))
    return "\n".join(lines)


def losers_in_words(rows: list[dict]) -> str:
    """Where multi-query or local attention takes longer than multi-head, and why it may."""
    slower = []
    for r in rows:
        base = multi_head_row(r, rows)
        if r["decoder_us"] > base["decoder_us"]:
            where = f"batch {r['batch']}, length {r['length']}, beam {r['beams']}"
            slower.append(f"{r['variant']} ({r['cache']}), {where}")
    say = "; ".join(slower) or "none of these settings"
    return (
        f"Slower than multi-head: {say}. Short caches take little of a step; what is saved there is not seen beside"
        " the feed-forward part, which multi-query attention makes wider; and a window hides nothing before it is full."
    )


def ratio_table(rows: list[dict]) -> str:
    lines = [
        f"{'batch':>5} {'length':>6} {'variant':<18} {'order':>8} {'listing':>8} {'fixed shape':>12} {'growing':>8}"
    ]
    for r in rows:
        fixed, growing = (r[cache] for cache in VARIANTS[r["variant"]])
        lines.append(f"{r['batch']:>5} {r['length']:>6} {r['variant']:<18} {r['paper_order']:>8.4f} "
                     f"{r['listing']:>8.4f} {fixed:>12.4f} {growing:>8.4f}")  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--paper", action="store_true", help="the paper's shapes: 211 million parameters")
    p.add_argument("--batches", type=positive, nargs="+", default=[1, 8, 64])
    p.add_argument(
        "--lengths", type=positive, nargs="+", default=[32, 128], help="of sources, and of what is generated"
    )
    p.add_argument("--beams", type=positive, nargs="+", default=[1, 4])
    p.add_argument("--runs", type=positive, default=3, help="turns that are timed")
    p.add_argument("--note", default="", help="what else ran on the machine meanwhile")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    a = p.parse_args()

    shape = PAPER if a.paper else LAPTOP
    models = {variant: make_model(variant, shape, max(a.lengths) + 2) for variant in VARIANTS}
    for variant, model in models.items():
        print(f"{variant:<18} {model.parameters:,} parameters")
    rng = np.random.default_rng(0)
    settings = list(product(a.batches, a.lengths, a.beams))
    cases = [(v, plan) for v, plans in VARIANTS.items() for plan in plans]
    rows = []
    for B, N, beams in track(settings, "timing", console=Console(stderr=True), transient=True):
        ids_BN = rng.integers(3, shape["vocabulary"], (B, N))
        times = {case: [] for case in cases}
        for _ in range(a.runs):
            for variant, cache in cases:
                times[variant, cache].append(time_once(models[variant], f"cache={cache}", ids_BN, beams, N))
        for (variant, cache), runs in times.items():
            encoder, decoder = zip(*runs, strict=True)
            rows.append({
                "variant": variant, "cache": cache, "batch": B, "length": N, "beams": beams,
                "encoder_us": round(statistics.median(encoder), 2), "decoder_us": round(statistics.median(decoder), 1),
                "decoder_us_fastest": round(min(decoder), 1), "decoder_us_slowest": round(max(decoder), 1),
            })  # fmt: skip
    print(table(rows))
    whole = [v for v in VARIANTS if "local" not in v]
    moved = [numbers_per_operation(models[v], v, B, N) for B, N in product(a.batches, a.lengths) for v in whole]
    print("\nnumbers moved per operation, decoder self-attention\n" + ratio_table(moved))
    padded = footnote_1(shape, max(a.batches), max(a.lengths), max(9, a.runs))
    print("\nms of a step of one layer, by how the cache is kept\n" + footnote_table(padded))
    print("\n" + losers_in_words(rows))
    if a.out:
        machine = describe_machine() | {"note": a.note}
        parameters = {v: m.parameters for v, m in models.items()}
        report = {"machine": machine, "shape": shape, "parameters": parameters, "rows": rows,
                  "ratios": moved, "footnote_1": padded, "losers": losers_in_words(rows),
                  "paper_us": PAPERS_FIGURES}  # fmt: skip
        write_record(a.out, report)


def multi_head_row(row: dict, rows: list[dict]) -> dict:
    """Multi-head attention in the same setting, with the same kind of cache."""
    cache = VARIANTS["multi-head"][VARIANTS[row["variant"]].index(row["cache"])]
    same = {key: row[key] for key in ("batch", "length", "beams")} | {"variant": "multi-head", "cache": cache}
    return next(b for b in rows if all(b[key] == value for key, value in same.items()))


def table(rows: list[dict]) -> str:
    """Microseconds per token; ratios are to multi-head attention with the same kind of cache."""
    lines = [f"{'batch':>5} {'length':>6} {'beams':>5} {'variant':<18} {'cache':<13} {'encoder':>8} {'decoder':>9} "
             f"{'fastest to slowest':>20} {'speed':>6}"]  # fmt: skip
    for r in rows:
        base = multi_head_row(r, rows)
        spread = f"{r['decoder_us_fastest']:,.1f} to {r['decoder_us_slowest']:,.1f}"
        lines.append(
            f"{r['batch']:>5} {r['length']:>6} {r['beams']:>5} {r['variant']:<18} {r['cache']:<13} "
            f"{r['encoder_us']:>8.2f} {r['decoder_us']:>9,.1f} {spread:>20} "
            f"{base['decoder_us'] / r['decoder_us']:>5.2f}x"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
