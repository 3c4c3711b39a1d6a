"""Prints every figure on the card of a bundled BART, with minidecode alone (and rouge-score).

    pip install rouge-score
    python weights/evaluate_bart.py TEXTS --model tiny-bart --gpt2 tiny-gpt2

Windows of held-out text are corrupted as in training (text infilling: spans of Poisson lengths, 30 % of the tokens) and
restored, once for each mean length of a span; BART's is 3. Two questions:

1. How often is the likeliest token right inside hidden spans, if all tokens of the target before it are given? Beside
   it stands the GPT-2, which is given the same tokens, and the text before the window too: the left context alone.
2. How near does beam search bring the text to the original (ROUGE-L, F1), beside the corrupted text itself: as the
   model is given it, each <mask> a word, and with its masks left out? Gains come with a 95 % bootstrap interval over
   the windows.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from corpus import corrupt_by_infilling, read_text, split_files
from rouge_score import rouge_scorer

import minidecode as md


def draw_windows(ids_of_texts: list[np.ndarray], count: int, length: int, seed: int) -> list[tuple[int, int]]:
    """(text, first token) of `count` windows, texts by their length, with room for as much context before each."""
    rng = np.random.default_rng(seed)
    room = np.array([max(0, len(ids) - 2 * length) for ids in ids_of_texts], float)
    texts = rng.choice(len(room), count, p=room / room.sum())
    return [(int(t), int(rng.integers(length, len(ids_of_texts[t]) - length))) for t in texts]


def bart_hits(model: md.Model, special, corrupted: np.ndarray, window: np.ndarray) -> np.ndarray:
    """Which tokens of the window are the decoder's first choice, the tokens before them given."""
    start, end = special
    source, target = [start, *corrupted, end], [end, start, *window[:-1]]
    logits_NV = model.logits([source], None, [target])[0][1:]
    return logits_NV.argmax(axis=1) == window


def gpt2_hits(model: md.Model, ids: np.ndarray, first: int, length: int) -> np.ndarray:
    """Which tokens are the first choice of a language model that has read what its context holds before the window."""
    begin = max(0, first + length - model.config.context)
    logits_NV = model.logits([ids[begin : first + length]])[0][first - begin - 1 : -1]
    return logits_NV.argmax(axis=1) == ids[first : first + length]


def bootstrap(gains: np.ndarray) -> str:
    """The mean, and its 95 % interval over the windows."""
    low, high = np.percentile(np.random.default_rng(2).choice(gains, (10_000, len(gains))).mean(axis=1), [2.5, 97.5])
    return f"{gains.mean():+.4f}, 95 % interval {low:+.4f} to {high:+.4f} (bootstrap over windows)"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("texts", type=Path)
    p.add_argument("--model", default="tiny-bart")
    p.add_argument("--gpt2", default="tiny-gpt2", help="the model with the same vocabulary to compare with")
    p.add_argument("--held-out", default="12/25", help="REMAINDER/MODULUS, as in training")
    p.add_argument("--dtype", default="float32", help="of the BART: float32, float64; float16, int8 (how it is stored)")
    p.add_argument("--plan", default="cache=split", help="of the beam search; cache_dtype=float16 is seen there alone")
    p.add_argument("--windows", type=int, default=64)
    p.add_argument("--length", type=int, default=256, help="tokens of a window")
    p.add_argument("--spans", type=float, nargs="+", default=[3.0, 2.0, 1.0], help="mean lengths of a hidden span")
    p.add_argument("--pairs", type=Path, help="only write the windows of the first of --spans, for minidecode evaluate")
    a = p.parse_args()

    bart, gpt2 = md.load(a.model, dtype=a.dtype), md.load(a.gpt2)
    c = bart.config
    print(f"parameters           {bart.parameters:,} ({c.encoder_layers} encoder, {c.decoder_layers} decoder layers, "
          f"width {c.d_model}, positions {c.max_position_embeddings}, vocabulary {c.vocab_size:,})")  # fmt: skip
    _, held_out = split_files(a.texts, *map(int, a.held_out.split("/")))
    texts = [gpt2.tokenizer.encode(read_text(path)) for path in held_out]
    if a.pairs:
        write_pairs(bart.tokenizer, texts, a)
        return
    for mean in a.spans:
        evaluate(bart, gpt2, texts, mean, a)


def write_pairs(tokenizer, texts: list[np.ndarray], a: argparse.Namespace) -> None:
    """Each window, its spans hidden by <mask>, and as it was: a line of JSON each."""
    rng, lines = np.random.default_rng(1), []
    for text, first in draw_windows(texts, a.windows, a.length, seed=0):
        window = texts[text][first : first + a.length]
        corrupted, _ = corrupt_by_infilling(rng, window, tokenizer.token_to_id("<mask>"), a.spans[0])
        hidden, whole = tokenizer.decode(corrupted, keep_special=True), tokenizer.decode(window)
        lines.append(json.dumps({"prompt": hidden, "reference": whole}) + "\n")
    a.pairs.write_text("".join(lines), encoding="utf-8")


def evaluate(bart: md.Model, gpt2: md.Model, texts: list[np.ndarray], mean: float, a: argparse.Namespace) -> None:
    """Prints the figures for spans of this mean length, and a sample."""
    start, end, mask = (bart.tokenizer.token_to_id(t) for t in ("<s>", "</s>", "<mask>"))
    rng = np.random.default_rng(1)
    bart_right, gpt2_right, copied_right, sources, originals = [], [], [], [], []
    for text, first in draw_windows(texts, a.windows, a.length, seed=0):
        window = texts[text][first : first + a.length]
        corrupted, hidden = corrupt_by_infilling(rng, window, mask, mean)
        hits = bart_hits(bart, (start, end), corrupted, window)
        bart_right.append(hits[hidden])
        copied_right.append(hits[~hidden])
        gpt2_right.append(gpt2_hits(gpt2, texts[text], first, a.length)[hidden])
        sources.append(np.array([start, *corrupted, end]))
        originals.append(gpt2.tokenizer.decode(window))
    hidden_count = sum(map(len, bart_right))
    shortest, longest = min(map(len, sources)), max(map(len, sources))
    print(f"\nspans of {mean:g} on average (Poisson)")
    print(f"windows              {a.windows} of {a.length} tokens, sources of {shortest} to {longest}; "
          f"{hidden_count} tokens hidden, {hidden_count / a.windows / a.length:.1%}")  # fmt: skip
    print(f"hidden tokens right  {np.concatenate(bart_right).mean():.1%} by this model, "
          f"{np.concatenate(gpt2_right).mean():.1%} by {a.gpt2} from the left context alone")  # fmt: skip
    print(f"copied tokens right  {np.concatenate(copied_right).mean():.1%}")

    began = time.perf_counter()
    restored = []
    for i in range(0, len(sources), 8):
        restored += bart.generate(
            input_ids=sources[i : i + 8], num_beams=4, max_new_tokens=a.length + 40, plan=a.plan
        ).texts
    scorer = rouge_scorer.RougeScorer(["rougeL"])
    as_given = [bart.tokenizer.decode(s[1:-1], keep_special=True) for s in sources]
    without_masks = [bart.tokenizer.decode(s) for s in sources]

    def rouge(candidates: list[str]) -> np.ndarray:
        return np.array([scorer.score(o, t)["rougeL"].fmeasure for o, t in zip(originals, candidates, strict=True)])

    after = rouge(restored)
    print(f"ROUGE-L              {after.mean():.4f} restored by beam search, {time.perf_counter() - began:.0f} s")
    for name, candidates in (("as given", as_given), ("without masks", without_masks)):
        before = rouge(candidates)
        print(f"{name:<20} {before.mean():.4f} corrupted, gain {bootstrap(after - before)}")
    shown = as_given[0]
    print(f"sample\n  original:  {originals[0][:300]}\n  corrupted: {shown[:300]}\n  restored:  {restored[0][:300]}")


if __name__ == "__main__":
    main()
