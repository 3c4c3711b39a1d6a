"""Prints every figure on the card of a bundled translator, with minidecode alone, and writes them to a file.

    python weights/evaluate_translator.py --out benchmarks/results/translator-quality.json

Exact match is the share of answers of greedy search that are right to the letter. No example was trained on:
translator_data.py says what each kind holds. Takes about two minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from translator_data import KINDS, TASKS, UNTRAINED_WORDS, held_out_examples

import minidecode as md
from minidecode.bench.compare import describe_machine

DTYPES = ("float32", "float16", "int8", "int8_dynamic")


def wrong_answers(model: md.Model, examples: list[tuple[str, str]], batch_size: int = 64) -> list[tuple[str, str, str]]:
    """(source, right answer, the model's answer) of each example that the model gets wrong."""
    texts: list[str] = []
    for first in range(0, len(examples), batch_size):
        texts += model.generate([source for source, _ in examples[first : first + batch_size]]).texts
    return [(*example, text) for example, text in zip(examples, texts, strict=True) if text != example[1]]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default="tiny-translator")
    p.add_argument("--dtypes", nargs="+", default=list(DTYPES))
    p.add_argument("--examples", type=int, default=1000, help="of each kind and language")
    p.add_argument("--plan", default="fast")
    p.add_argument("--show", type=int, default=0, help="wrong answers to print of each kind and language")
    p.add_argument("--out", type=Path, help="the JSON file with all figures")
    a = p.parse_args()

    rows = []
    for dtype in a.dtypes:
        for language, task in TASKS.items():
            model = md.load(a.model, dtype=dtype, task=task, plan=a.plan)
            for kind in KINDS:
                wrong = wrong_answers(model, held_out_examples(kind, language, a.examples))
                rows.append({"kind": kind, "language": language, "dtype": dtype, "wrong": len(wrong)})
                for source, right, said in wrong[: a.show]:
                    print(f"{dtype}, {kind}, {source}: {said!r}, right is {right!r}", file=sys.stderr)
    settings = {"model": a.model, "examples": a.examples, "plan": a.plan, "untrained_words": UNTRAINED_WORDS}
    record = {"machine": describe_machine(), "settings": settings, "rows": rows}
    print("\n".join(table(record)))
    if a.out:
        a.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def table(record: dict) -> list[str]:
    """Exact match of each kind and language, a column for each dtype, in Markdown."""
    examples, rows = record["settings"]["examples"], record["rows"]
    dtypes = list(dict.fromkeys(row["dtype"] for row in rows))
    lines = [f"| held out | language | {' | '.join(dtypes)} |", "|---" * (2 + len(dtypes)) + "|"]
    for kind, language in dict.fromkeys((row["kind"], row["language"]) for row in rows):
        right = {r["dtype"]: 1 - r["wrong"] / examples for r in rows if (r["kind"], r["language"]) == (kind, language)}
        lines.append(f"| {kind} | {language} | {' | '.join(f'{100 * right[dtype]:.1f} %' for dtype in dtypes)} |")
    return lines


if __name__ == "__main__":
    main()
