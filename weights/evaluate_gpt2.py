"""Prints every figure on the card of a bundled GPT-2, with minidecode alone.

    python weights/evaluate_gpt2.py TEXTS --model tiny-gpt2

TEXTS is the folder of *.txt files that the model was trained from; the held-out files are scored. Bits per byte:
each text is cut into windows of the whole context that overlap by half, so that every token but those of the first
half window is scored after at least half a context. The first token follows <|endoftext|>.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np
from corpus import END_OF_TEXT, read_text, split_files
from rich.console import Console
from rich.progress import track

import minidecode as md

PROMPTS = ["Fellow citizens,", "The Congress of the United States", "Our army and our navy", "Call me"]


def window_starts(count: int, context: int) -> list[tuple[int, int]]:
    """(start of the window, first position scored) so that each of the positions 1..count-1 is scored once."""
    windows, scored = [], 1
    for start in range(0, max(1, count - context // 2), context // 2):
        windows.append((start, scored))
        scored = min(count, start + context)
    return windows


def score_text(model: md.Model, ids: np.ndarray) -> tuple[float, int]:
    """(sum of -log2 p, how many were the model's first choice) over ids[1:]."""
    context = model.config.n_positions
    bits, right = 0.0, 0
    for start, first in window_starts(len(ids), context):
        window = ids[start : start + context]
        logits_NV = model.logits([window])[0][first - start - 1 : -1].astype(np.float64)
        targets = window[first - start :]
        top = logits_NV.max(axis=1)
        log_sum = top + np.log(np.exp(logits_NV - top[:, None]).sum(axis=1))
        bits += float((log_sum - logits_NV[np.arange(len(targets)), targets]).sum()) / math.log(2)
        right += int((logits_NV.argmax(axis=1) == targets).sum())
    return bits, right


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("texts", type=Path)
    p.add_argument("--model", default="tiny-gpt2")
    p.add_argument("--held-out", default="12/25", help="REMAINDER/MODULUS, as in training")
    a = p.parse_args()

    model = md.load(a.model)
    start = model.tokenizer.token_to_id(END_OF_TEXT)
    _, held_out = split_files(a.texts, *map(int, a.held_out.split("/")))
    c = model.config
    print(f"parameters           {model.parameters:,} ({c.n_layer} layers, width {c.n_embd}, {c.n_head} heads, "
          f"context {c.n_positions}, vocabulary {c.vocab_size:,})")  # fmt: skip

    if not held_out:
        raise SystemExit(
            f"of the files in {a.texts} none is held out by {a.held_out}: choose --held-out for fewer files"
        )

    bits = right = tokens = size = 0
    began = time.perf_counter()
    print(f"{'held-out text':<36} {'bytes':>8} {'tokens':>7} {'bits/byte':>10}")
    for path in track(held_out, "scoring", console=Console(stderr=True), transient=True):
        text = read_text(path)
        ids = np.concatenate([[start], model.tokenizer.encode(text)])
        text_bits, text_right = score_text(model, ids)
        text_bytes = len(text.encode("utf-8"))
        print(f"{path.name:<36} {text_bytes:>8,} {len(ids) - 1:>7,} {text_bits / text_bytes:>10.4f}")
        bits, right, tokens, size = bits + text_bits, right + text_right, tokens + len(ids) - 1, size + text_bytes
    print(f"{'all':<36} {size:>8,} {tokens:>7,} {bits / size:>10.4f}")
    print(f"bits per byte        {bits / size:.4f}")
    print(f"bytes per token      {size / tokens:.2f}")
    print(f"perplexity per token {2 ** (bits / tokens):.2f}")
    print(f"first choice right   {right / tokens:.1%}")
    print(f"scored in            {time.perf_counter() - began:.0f} s on this machine")
    for beams in (1, 4):
        print(f"\nsamples, num_beams={beams}, max_new_tokens=40, the model's own defaults otherwise")
        out = model.generate(PROMPTS, num_beams=beams, max_new_tokens=40)
        for prompt, text in zip(PROMPTS, out.texts, strict=True):
            print(f"  [{prompt}]{text}")


if __name__ == "__main__":
    main()
