"""Prints every figure on the card of a model with a latent, by minidecode alone, and writes them to a file.

    python weights/evaluate_latent.py --out benchmarks/results/latent-quality.json

No sentence was trained on. Bits per byte are of the words of a sentence given a latent: the mean that the encoder reads
from it; that of the next sentence in the list; or zeros. An interpolation goes in 9 texts from one sentence to another.
Takes about a minute on two cores.
"""

from __future__ import annotations

import argparse
import json
import math
from itertools import zip_longest
from pathlib import Path

import numpy as np
from latent_data import follows_grammar, held_out_sentences

import minidecode as md
from minidecode.bench.compare import describe_machine

TEXTS = 9  # of an interpolation


def interpolations(model: md.Model, firsts: list[str], lasts: list[str]) -> list[list[str]]:
    """The texts from each first sentence to its last one."""
    return [model.interpolate(*ends, steps=TEXTS).texts for ends in zip(firsts, lasts, strict=True)]


def turns_into_last(texts: list[str], first: str, last: str) -> bool:
    """Whether they begin with one sentence and end with the other, by at least 3 different texts between."""
    between = {text for text in texts[1:-1] if text not in (first, last)}
    return texts[0] == first and texts[-1] == last and len(between) >= 3


def equal_words(text: str, sentence: str) -> list[bool]:
    """Of each word of a sentence, whether the text has it in its place."""
    return [a == b for a, b in zip_longest(text.split(), sentence.split())][: len(sentence.split())]


def figures(model: md.Model, sentences: int, pairs: int, drawn: int) -> dict[str, float]:
    """What the card says."""
    texts = held_out_sentences(sentences)
    mean_BZ = model.encode_latent(texts).mean_BZ
    latents = {"own": mean_BZ, "shuffled": np.roll(mean_BZ, 1, axis=0), "zeros": np.zeros_like(mean_BZ)}
    bits = len("".join(texts).encode()) * math.log(2)
    found = {f"bits per byte, {n}": float(-model.score(texts, latent=z_BZ).log_probs.sum() / bits)
             for n, z_BZ in latents.items()}  # fmt: skip
    posterior = model.encode_latent(texts)
    variance_BZ = np.exp(posterior.log_variance_BZ)
    nats_BZ = 0.5 * (posterior.mean_BZ**2 + variance_BZ - 1 - posterior.log_variance_BZ)
    start = np.full((len(texts), 1), model.defaults["bos_token_id"])
    again = model.generate(input_ids=start, latent=mean_BZ).texts
    ends = texts[:pairs], texts[pairs : 2 * pairs]
    paths = interpolations(model, *ends)
    free = model.generate(input_ids=start[:1].repeat(drawn, axis=0), latent_seed=1).texts
    return found | {
        "divergence, nats": float(nats_BZ.sum(axis=1).mean()),
        "used numbers of z": int((nats_BZ.mean(axis=0) > 0.1).sum()),
        "sentences written again": float(np.mean([a == b for a, b in zip(again, texts, strict=True)])),
        "words written again": float(
            np.mean([right for pair in zip(again, texts, strict=True) for right in equal_words(*pair)])
        ),
        "interpolations that turn": float(np.mean([turns_into_last(*x) for x in zip(paths, *ends, strict=True)])),
        "texts of an interpolation": float(np.mean([len(set(path)) for path in paths])),
        "interpolated, by the grammar": float(np.mean([follows_grammar(t) for path in paths for t in path])),
        "drawn, by the grammar": float(np.mean([follows_grammar(text) for text in free])),
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default="tiny-latent")
    p.add_argument("--dtypes", nargs="+", default=["float32", "float16", "int8"])
    p.add_argument("--sentences", type=int, default=1000)
    p.add_argument("--pairs", type=int, default=200)
    p.add_argument("--drawn", type=int, default=500)
    p.add_argument("--plan", default="numpy")
    p.add_argument("--show", type=int, default=0, help="interpolations to print")
    p.add_argument("--out", type=Path, help="the JSON file with all figures")
    a = p.parse_args()

    rows = []
    for dtype in a.dtypes:
        model = md.load(a.model, dtype=dtype, plan=a.plan)
        rows.append({"dtype": dtype, **figures(model, a.sentences, a.pairs, a.drawn)})
    texts = held_out_sentences(2 * a.show)
    for path in interpolations(md.load(a.model), texts[: a.show], texts[a.show :]):
        print("\n".join(path), end="\n\n")
    settings = {"model": a.model, "sentences": a.sentences, "pairs": a.pairs, "drawn": a.drawn, "plan": a.plan}
    record = {"machine": describe_machine(), "settings": settings, "rows": rows}
    print("\n".join(table(record)))
    if a.out:
        a.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def table(record: dict) -> list[str]:
    """A line for each figure, a column for each dtype, in Markdown."""
    rows = record["rows"]
    lines = [f"| | {' | '.join(row['dtype'] for row in rows)} |", "|---" * (1 + len(rows)) + "|"]
    for name in rows[0]:
        if name == "dtype":
            continue
        is_share = any(word in name for word in ("that turn", "grammar", "again"))
        digits = 3 if "bits" in name else 0 if "used" in name else 1
        cells = (f"{100 * row[name]:.1f} %" if is_share else f"{row[name]:.{digits}f}" for row in rows)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
