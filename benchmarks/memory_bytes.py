"""The memory columns of two papers, for BART-large in fp16: EL's Table 4 and the cache column of FastSeq's Table 2.

    python benchmarks/memory_bytes.py --out benchmarks/results/memory-bytes.json

First the formula is held against what is really held: the distinct base arrays of all caches, by their `nbytes`
(`receipt.cache_peak_bytes`), of a small BART under each plan, to the byte. Then the same formula is asked for the
papers' sizes, which no laptop has room for. Their GB are GiB (2**30 bytes). EL counts what belongs to the input alone;
FastSeq counts the keys and values of the 50 generated tokens too.

Takes some seconds; nothing is timed. Prints the tables; writes their numbers to --out.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from flags import file_to_write
from records import write_record

import minidecode as md

GIB = 2**30
BART_LARGE = {"layers": 12, "width": 1024, "item": 2}  # decoder layers, fp16
# (batch, source length): GB of multi-head attention and of EL, as printed (EL, Table 4; beam 4)
EL_TABLE_4 = {
    (32, 256): (1.5, 0.02), (32, 1024): (6, 0.06), (64, 256): (3, 0.03), (64, 1024): (12, 0.13),
    (320, 256): (15, 0.15), (320, 1024): (60, 0.63),
}  # fmt: skip
# (plan here, batch): GB, as printed (FastSeq, Table 2; source 1024, output 50, beam 4)
FASTSEQ_TABLE_2 = {("cache=replicated", 32): 6.3, ("cache=split", 32): 1.8, ("cache=split", 128): 7.2}


def source_bytes(plan: str, B: int, W: int, N: int, layers: int, width: int, item: int) -> int:
    """What is held of the sources: keys and values per layer, per beam or once; for EL the encoder's output alone."""
    if plan == "cache=el":
        return B * N * width * item
    return (W if plan == "cache=replicated" else 1) * B * N * 2 * layers * width * item


def own_bytes(B: int, W: int, T: int, layers: int, width: int, item: int) -> int:
    """Keys and values of T positions of every beam."""
    return B * W * T * 2 * layers * width * item


def held_bytes(plan: str, B: int, W: int, N: int, T: int, item: int = 4) -> tuple[int, int]:
    """(bytes that a small BART holds under a plan, bytes by the formulas). item: 2 stores float16, as the papers do."""
    layers, width = 3, 16
    fields = {
        "model_type": "bart", "vocab_size": 50, "max_position_embeddings": 64, "d_model": width, "encoder_layers": 1,
        "decoder_layers": layers, "encoder_attention_heads": 2, "decoder_attention_heads": 4, "encoder_ffn_dim": 8,
        "decoder_ffn_dim": 8, "decoder_start_token_id": 2,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(fields), encoding="utf-8")
        model = md.load(folder, random_weights=True)
    ids_BN = np.random.default_rng(0).integers(3, 50, (B, N))
    stored = plan if item == 4 else f"{plan},cache_dtype=float16"
    receipt = model.generate(input_ids=ids_BN, plan=stored, num_beams=W, max_new_tokens=T).receipt
    sizes = {"layers": layers, "width": width, "item": item}
    # The start token stands before the T tokens: once per beam, or once per sentence where the prompt is split off.
    # A growing memory never holds the last token, which is never read.
    beams_own = own_bytes(B, W, T, **sizes)
    start = 0 if plan == "cache=replicated" else own_bytes(B, 1, 1, **sizes)
    return receipt.cache_peak_bytes, source_bytes(plan, B, W, N, **sizes) + beams_own + start


def tables() -> dict[str, list[dict]]:
    """Both papers' columns beside ours, in GiB, and where EL keeps more than what it replaces."""
    el, fastseq = [], []
    for (B, N), printed in EL_TABLE_4.items():
        plans = ("cache=replicated", "cache=el")
        gib = {plan: source_bytes(plan, B, 4, N, **BART_LARGE) / GIB for plan in plans}
        el.append({"batch": B, "length": N, "gib": gib, "paper": dict(zip(plans, printed, strict=True))})
    for (plan, B), printed in FASTSEQ_TABLE_2.items():
        held_bytes = source_bytes(plan, B, 4, 1024, **BART_LARGE) + own_bytes(B, 4, 50, **BART_LARGE)
        fastseq.append({"batch": B, "plan": plan, "gib": held_bytes / GIB, "paper": printed})
    width, heads = 1024, 16
    prompts = [{"key_value_heads": G, "shared_cache": 2 * G * width // heads, "el": width} for G in (16, 4, 1)]
    return {
        "machine": "any machine: nothing is timed", "el_table_4": el, "fastseq_table_2": fastseq,
        "numbers_per_prompt_position_and_layer": prompts,
    }  # fmt: skip


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    a = p.parse_args()
    for plan in ("cache=replicated", "cache=split", "cache=el"):
        for B, W, N, T in [(1, 1, 7, 5), (3, 4, 20, 9), (2, 5, 33, 12)]:
            for item in (4, 2):
                measured, expected = held_bytes(plan, B, W, N, T, item)
                if measured != expected:
                    what = f"{plan}, {item} bytes a number, {B} x {N}, beam {W}, {T} new"
                    raise SystemExit(f"{what}: {measured} bytes held, {expected} by formula")
    print("held bytes are those of the formulas, for each plan, float32 and float16, and 3 shapes\n")
    record = tables()
    print("EL, Table 4: states of the input, GiB    here    paper    here    paper    ratio")
    for r in record["el_table_4"]:
        (here, here_el), (paper, paper_el) = r["gib"].values(), r["paper"].values()
        print(f"batch {r['batch']:>3}, length {r['length']:>4}: multi-head / EL {here:>8.2f} {paper:>8} "
              f"{here_el:>7.3f} {paper_el:>8} {here / here_el:>7.0f}x")  # fmt: skip
    print("\nFastSeq, Table 2: cache, GiB                here    paper")
    for r in record["fastseq_table_2"]:
        print(f"batch {r['batch']:>3}, {r['plan']:<28} {r['gib']:>8.2f} {r['paper']:>8}")
    print("\nWhere EL loses: a prompt's position, in one layer of width 1,024 with 16 query heads, in numbers")
    for r in record["numbers_per_prompt_position_and_layer"]:
        print(f"{r['key_value_heads']:>3} key/value heads: shared cache {r['shared_cache']:>5}, EL {r['el']:>5}")
    print("Few key/value heads are narrower than the hidden states that they are made from.")
    if a.out:
        write_record(a.out, record)


if __name__ == "__main__":
    main()
