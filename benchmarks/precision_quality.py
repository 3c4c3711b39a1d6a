"""What a dtype of `md.load` costs in quality, beside float32; and again with outlier channels.

    pip install '.[evaluate]'
    python benchmarks/precision_quality.py TEXTS --out benchmarks/results/precision-quality.json \\
        --readme benchmarks/README.md

TEXTS is the folder of *.txt files that the bundled models were trained from. Their cards (weights/tiny-gpt2/README.md)
say where it is from, and which of its files were held out. Only those are read here.

- tiny-gpt2 reads the held-out texts, in windows of its context that overlap by half, as its card does.
- tiny-bart restores --windows windows of --length tokens, in which spans of --spans tokens on average are hidden. Its
  bits per byte are those of the right text after the corrupted one. ROUGE-L is that of its beam search with 4 beams.
- "Same first choice" (top-1 agreement) is the share of positions at which the likeliest token is float32's likeliest
  token. The right tokens before it are given.

Large models have a few inputs that are much larger than the others. The bundled ones have not, so here some get them:
--channels channels of every norm in front of a rounded product become --factor times as large. That is done in two
ways. "outliers" changes nothing else: it is another model, whose float32 is the baseline. "outliers, divided back"
divides the weights behind the norm by the same factor, so float32 computes what it did before. Only tiny-gpt2 can have
that: the norms of a BART also feed its residual stream. No way changes the last norm, since the output matrix's
activations stay floats.

Takes about ten minutes on two cores. The figures do not depend on how busy the machine is, nor on the plan except for
ties. Prints the tables; writes them into --readme between the marks precision-quality, and all figures to --out.
"""

from __future__ import annotations

import argparse
import math
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from flags import file_to_write, positive, positive_number
from readme import with_marks, write_between_markers
from records import write_record
from safetensors.numpy import load_file, save_file

import minidecode as md
from minidecode.bench import quality
from minidecode.bench.compare import describe_machine
from minidecode.device.low_precision import COMPUTED_IN
from minidecode.files.folder import find_folder

sys.path.append(str(Path(__file__).parents[1] / "weights"))

from corpus import END_OF_TEXT, corrupt_by_infilling, read_text, split_files
from evaluate_bart import draw_windows

DTYPES = tuple(dtype for dtype in COMPUTED_IN if dtype != "float64")  # the first is what others are compared with
MODELS = {"gpt2": "tiny-gpt2", "bart": "tiny-bart"}
PLAIN, OUTLIERS, DIVIDED = "as it is", "outliers", "outliers, divided back"
VARIANTS = {"gpt2": (PLAIN, OUTLIERS, DIVIDED), "bart": (PLAIN, OUTLIERS)}
NORMS = {"gpt2": r"\bln_[12]\.", "bart": r"layer_?norm"}  # in the names of tensors: the gains and biases
BEHIND = {"ln_1.weight": "attn.c_attn.weight", "ln_2.weight": "mlp.c_fc.weight"}  # GPT-2's products of these inputs
COLUMNS = ("model", "dtype", "bits per byte", "more than float32", "same first choice")
OF_TEXTS = ("ROUGE-L", "less float32's, 95 %")


@dataclass(frozen=True)
class Found:
    """What one model made of its texts."""

    bits_per_byte: float
    likeliest: np.ndarray  # the likeliest token at every position, text after text
    texts: list[str] | None  # what was generated, if it was


def changed_folder(family: str, variant: str, folder: Path, to: Path, channels: int, factor: float) -> None:
    """A copy of a model folder in which the same channels of all norms are `factor` times as large."""
    shutil.copytree(folder, to)
    tensors = {name: t.astype(np.float32) for name, t in load_file(to / "model.safetensors").items()}
    gains = [name for name in tensors if name.endswith("weight") and feeds_a_rounded_product(family, name, tensors)]
    widths = {len(tensors[name]) for name in gains}
    if len(widths) != 1 or channels > min(widths):
        raise SystemExit(f"{folder}: norms of widths {sorted(widths)} cannot have {channels} channels in common")
    these = np.random.default_rng(0).choice(widths.pop(), channels, replace=False)
    for gain in gains:
        for name in (gain, gain.removesuffix("weight") + "bias"):
            tensors[name][these] *= factor
        if variant == DIVIDED:
            norm = gain.rsplit(".", 2)[-2] + ".weight"
            tensors[gain.removesuffix(norm) + BEHIND[norm]][these] /= factor  # stored as (inputs, outputs)
    save_file(tensors, to / "model.safetensors")


def feeds_a_rounded_product(family: str, name: str, tensors: dict) -> bool:
    """Whether it is of a norm that a product's input comes from, other than the output matrix's."""
    layers = [int(n) for n in re.findall(r"decoder\.layers\.(\d+)\.final_layer_norm", " ".join(tensors))]
    last = f"decoder.layers.{max(layers, default=0)}.final_layer_norm."
    return re.search(NORMS[family], name) is not None and last not in name


def read_by_gpt2(model: md.Model, texts: list[str]) -> Found:
    scores = model.score([END_OF_TEXT + text for text in texts])
    return Found(scores.bits_per_byte, np.concatenate(scores.likeliest_ids), None)


def corrupted_windows(tokenizer, texts: list[str], a: argparse.Namespace) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(sources, windows) as token ids: those of the card's figures for spans of the same length."""
    ids, rng = [tokenizer.encode(text)[1:-1] for text in texts], np.random.default_rng(1)  # without <s> and </s>
    start, end, mask = (tokenizer.token_to_id(t) for t in ("<s>", "</s>", "<mask>"))
    sources, windows = [], []
    for text, first in draw_windows(ids, a.windows, a.length, seed=0):
        windows.append(ids[text][first : first + a.length])
        sources.append(np.array([start, *corrupt_by_infilling(rng, windows[-1], mask, a.spans)[0], end]))
    return sources, windows


def restored_by_bart(model: md.Model, sources: list, windows: list, generates: bool) -> Found:
    """Targets open with <s>, as in training. It is given, so it counts neither as a position nor in the bits."""
    begin = model.tokenizer.token_to_id("<s>")
    scores = model.score(input_ids=sources, target_ids=[[begin, *window] for window in windows])
    bits = -sum(p[1:].sum(dtype=np.float64) for p in scores.token_log_probs) / math.log(2)
    size = sum(model.tokenizer.bytes_of_tokens(window) for window in windows)
    texts: list[str] = []
    most = min(len(windows[0]) + 40, model.config.context)
    for i in range(0, len(sources) if generates else 0, 8):
        texts += model.generate(input_ids=sources[i : i + 8], num_beams=4, max_new_tokens=most).texts
    likeliest = np.concatenate([ids[1:] for ids in scores.likeliest_ids])
    return Found(bits / size, likeliest, texts if generates else None)


def rows_of(family: str, folder: Path, texts: list[str], a: argparse.Namespace) -> list[dict]:
    """A row for each dtype of each variant of one model."""
    rows, originals = [], []
    if family == "bart":
        tokenizer = md.load(folder).tokenizer
        sources, windows = corrupted_windows(tokenizer, texts, a)
        originals = [tokenizer.decode(window) for window in windows]
    for variant in VARIANTS[family]:

        def read(model: md.Model, variant: str = variant) -> Found:
            if family == "gpt2":
                return read_by_gpt2(model, texts)
            return restored_by_bart(model, sources, windows, generates=variant == PLAIN)

        with tempfile.TemporaryDirectory() as temporary:
            changed = Path(temporary) / "model"
            if variant != PLAIN:
                changed_folder(family, variant, folder, changed, a.channels, a.factor)
            rows += measure(family, variant, folder if variant == PLAIN else changed, read, originals, a.plan)
    return rows


def measure(family: str, variant: str, folder: Path, read: Callable, originals: list[str], plan: str) -> list[dict]:
    """A row for each dtype."""
    by_dtype: dict[str, Found] = {}
    for dtype in DTYPES:
        try:
            model = md.load(folder, dtype=dtype, plan=plan)
        except md.MinidecodeError as error:
            raise SystemExit(f"{MODELS[family]}, {dtype}: {error}") from None
        by_dtype[dtype] = read(model)
        print(
            f"{MODELS[family]}, {variant}, {dtype}: {by_dtype[dtype].bits_per_byte:.5f} bits per byte", file=sys.stderr
        )
    baseline = by_dtype[DTYPES[0]]
    rows = [
        {
            "model": MODELS[family], "variant": variant, "dtype": dtype, "bits_per_byte": f.bits_per_byte,
            "agreement": float((f.likeliest == baseline.likeliest).mean()), "positions": len(f.likeliest),
        }
        for dtype, f in by_dtype.items()
    ]  # fmt: skip
    if baseline.texts is not None:
        answers = [quality.Answers(MODELS[family], plan, dtype, f.texts, 0, 0) for dtype, f in by_dtype.items()]
        for row, judged in zip(rows, quality.judge_answers(answers, originals).rows, strict=True):
            row |= {"scores": judged.scores, "intervals": judged.intervals, "different_texts": judged.different}
    return rows


def table(record: dict) -> str:
    """Two tables: the models as they are, and with outliers, where nothing is generated."""
    s, positions = record["settings"], {r["model"]: r["positions"] for r in record["rows"]}
    each = " and ".join(f"{count:,} positions of {model}" for model, count in positions.items())
    return "\n".join([
        *lines_of([r for r in record["rows"] if r["variant"] == PLAIN], (*COLUMNS, *OF_TEXTS)), "",
        *lines_of([r for r in record["rows"] if r["variant"] != PLAIN], COLUMNS), "",
        f"At {each}; {s['windows']} restored texts; {s['channels']} channels {s['factor']:g} times as large.",
    ])  # fmt: skip


def lines_of(rows: list[dict], columns: tuple[str, ...]) -> list[str]:
    """The first dtype of each variant is the one that the others are compared with."""
    least = {(r["model"], r["variant"]): r["bits_per_byte"] for r in rows if r["dtype"] == DTYPES[0]}
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for r in rows:
        cells = [r["model"] if r["variant"] == PLAIN else f"{r['model']}, {r['variant']}", r["dtype"],
                 f"{r['bits_per_byte']:.4f}", "", ""]  # fmt: skip
        if r["dtype"] != DTYPES[0]:
            more = round(r["bits_per_byte"] - least[r["model"], r["variant"]], 4)
            cells[3:] = f"{more + 0.0:+.4f}", f"{r['agreement']:.2%}"
        if OF_TEXTS[0] in columns:
            cells.append(f"{r['scores']['rougeL']:.2f}" if "scores" in r else "")
            cells.append("{:+.2f} to {:+.2f}".format(*r["intervals"]["rougeL"]) if r.get("intervals") else "")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def remainder(text: str) -> tuple[int, int]:
    """REMAINDER/MODULUS, as whole numbers."""
    match = re.fullmatch(r"(\d+)/([1-9]\d*)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not REMAINDER/MODULUS, such as 12/25")
    return int(match[1]), int(match[2])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("texts", type=Path, help="folder of the *.txt files that the models were trained from")
    p.add_argument("--held-out", type=remainder, default=(12, 25), help="REMAINDER/MODULUS, as in training")
    p.add_argument("--channels", type=positive, default=10, help="outlier channels of each norm")
    p.add_argument("--factor", type=positive_number, default=20.0, help="how many times as large they become")
    p.add_argument("--windows", type=positive, default=64, help="that tiny-bart restores")
    p.add_argument("--length", type=positive, default=256, help="tokens of such a window")
    p.add_argument("--spans", type=positive_number, default=3.0, help="mean length of what is hidden in it")
    p.add_argument("--plan", default="fast", help="numpy needs no integer dot product, and takes much longer")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    p.add_argument(
        "--readme", type=with_marks("precision-quality"), help="file whose tables between these marks are replaced"
    )
    a = p.parse_args()
    quality.metric_packages()
    _, held_out = split_files(a.texts, *a.held_out)
    if not held_out:
        raise SystemExit(f"of the files in {a.texts} none is held out: choose another --held-out")
    texts, rows = [read_text(path) for path in held_out], []
    for family, name in MODELS.items():
        rows += rows_of(family, find_folder(name), texts, a)
    settings = {
        key: getattr(a, key) for key in ("held_out", "channels", "factor", "windows", "length", "spans", "plan")
    }
    record = {"machine": describe_machine(), "settings": settings, "rows": rows}
    print(table(record))
    if a.out:
        write_record(a.out, record)
    if a.readme:
        write_between_markers(a.readme, "precision-quality", table(record))


if __name__ == "__main__":
    main()
