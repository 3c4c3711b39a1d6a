"""Prints every figure on the card of a bundled GPT-2, with minidecode alone.

    python weights/evaluate_gpt2.py TEXTS --model tiny-gpt2

TEXTS is the folder of *.txt files that the model was trained from; the held-out files are scored (see Model.score):
each text is read in windows of the whole context that overlap by half, so that every token but those of the first
window is scored after at least half a context. The first token follows <|endoftext|>.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from corpus import END_OF_TEXT, read_text, split_files
from rich.console import Console
from rich.progress import Progress

import minidecode as md

PROMPTS = ["Fellow citizens,", "The Congress of the United States", "Our army and our navy", "Call me"]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("texts", type=Path)
    p.add_argument("--model", default="tiny-gpt2")
    p.add_argument("--held-out", default="12/25", help="REMAINDER/MODULUS, as in training")
    p.add_argument("--dtype", default="float32", help="float32 or float64; float16 or int8: how weights are stored")
    a = p.parse_args()

    model = md.load(a.model, dtype=a.dtype)
    _, held_out = split_files(a.texts, *map(int, a.held_out.split("/")))
    c = model.config
    print(f"parameters           {model.parameters:,} ({c.n_layer} layers, width {c.n_embd}, {c.n_head} heads, "
          f"context {c.n_positions}, vocabulary {c.vocab_size:,})")  # fmt: skip

    if not held_out:
        raise SystemExit(
            f"of the files in {a.texts} none is held out by {a.held_out}: choose --held-out for fewer files"
        )

    began = time.perf_counter()
    with Progress(*Progress.get_default_columns(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("scoring")
        texts = [END_OF_TEXT + read_text(path) for path in held_out]
        scores = model.score(texts, progress=lambda done, total: bar.update(task, completed=done, total=total))
    print(f"{'held-out text':<36} {'bytes':>8} {'tokens':>7} {'bits/byte':>10}")
    for name, s in zip([*(path.name for path in held_out), "all"], [*scores, scores], strict=True):
        print(f"{name:<36} {sum(s.bytes):>8,} {s.tokens.sum():>7,} {s.bits_per_byte:>10.4f}")
    size, tokens = sum(scores.bytes), scores.tokens.sum()
    print(f"bits per byte        {scores.bits_per_byte:.4f}")
    print(f"bytes per token      {size / tokens:.2f}")
    print(f"perplexity per token {scores.perplexity:.2f}")
    print(f"first choice right   {scores.accuracy:.1%}")
    print(f"scored in            {time.perf_counter() - began:.0f} s on this machine")
    for beams in (1, 4):
        print(f"\nsamples, num_beams={beams}, max_new_tokens=40, the model's own defaults otherwise")
        out = model.generate(PROMPTS, num_beams=beams, max_new_tokens=40)
        for prompt, text in zip(PROMPTS, out.texts, strict=True):
            print(f"  [{prompt}]{text}")


if __name__ == "__main__":
    main()
