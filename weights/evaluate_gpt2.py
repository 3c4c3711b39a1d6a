"""Prints every figure on the card of a bundled GPT-2, with minidecode alone.

    python weights/evaluate_gpt2.py TEXTS --model tiny-gpt2

TEXTS is the folder of *.txt files that the model was trained from; the held-out files are scored (see Model.score):
each text is read in windows of the whole context that overlap by half, so that every token but those of the first
window is scored after at least half a context. The first token follows <|endoftext|>.

    python weights/evaluate_gpt2.py TEXTS --plan cache=split,cache_dtype=float16

says what a plan's cache does to the score instead, which a pass over whole texts never reads: windows of held-out text
are decoded step by step, each token of their second half forced, with a beam of one.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from corpus import END_OF_TEXT, read_text, split_files
from rich.console import Console
from rich.progress import Progress

import minidecode as md

PROMPTS = ["Fellow citizens,", "The Congress of the United States", "Our army and our navy", "Call me"]


def print_bits_by_steps(model: md.Model, texts: list[str], a: argparse.Namespace) -> None:
    """Bits per byte of the second halves of windows: in one pass, and by steps that read the cache of a.plan."""
    rng, half = np.random.default_rng(0), model.config.context // 2
    rows = [model.tokenizer.encode(text) for text in texts]
    room = np.array([max(0, len(ids) - 2 * half) for ids in rows], float)
    picked = rng.choice(len(rows), a.windows, p=room / room.sum())
    windows = [rows[t][first : first + 2 * half] for t in picked for first in [rng.integers(len(rows[t]) - 2 * half)]]
    first, second = [w[:half] for w in windows], [w[half:] for w in windows]
    size = sum(model.tokenizer.bytes_of_tokens(ids) for ids in second)
    whole = model.score(input_ids=first, target_ids=second)
    found, held = 0.0, 0
    for i in range(0, a.windows, 16):
        out = model.generate(
            input_ids=first[i : i + 16], plan=a.plan, max_new_tokens=half, num_beams=1, no_repeat_ngram_size=0,
            length_penalty=0.0, eos_token_id=None,
            prefix_allowed_tokens_fn=lambda b, ids, i=i: windows[i + b][len(ids) : len(ids) + 1],
        )  # fmt: skip
        assert all(np.array_equal(*pair) for pair in zip(out.token_ids, second[i : i + 16], strict=True))
        found, held = found - float(out.scores.sum()), out.receipt.cache_peak_bytes
    bits = sum(-row.sum() for row in whole.token_log_probs) / np.log(2)
    print(f"windows              {a.windows} of {2 * half} tokens, the second halves scored: {size:,} bytes")
    print(f"bits per byte        {bits / size:.5f} in one pass")
    print(f"bits per byte        {found / np.log(2) / size:.5f} by steps, {a.plan}")
    print(f"bytes held           {held:,} for the last {len(out.token_ids)} windows")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("texts", type=Path)
    p.add_argument("--model", default="tiny-gpt2")
    p.add_argument("--held-out", default="12/25", help="REMAINDER/MODULUS, as in training")
    p.add_argument("--dtype", default="float32", help="float32 or float64; float16 or int8: how weights are stored")
    p.add_argument("--plan", help="score by decode steps under this plan, beside the pass over whole texts")
    p.add_argument("--windows", type=int, default=64, help="of the whole context, with --plan")
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

    if a.plan:
        print_bits_by_steps(model, [END_OF_TEXT + read_text(path) for path in held_out], a)
        return
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
