"""Trains small GPT-2s or BARTs that differ in their attention alone: Shazeer 2019's Tables 3 and 1, in miniature.

    pip install '.[train,evaluate]'
    python weights/train_variants.py gpt2 TEXTS --gpt2 weights/tiny-gpt2 --out runs/multi-query
    python weights/train_variants.py bart TEXTS --gpt2 weights/tiny-gpt2 --out runs/multi-query
    python benchmarks/multi_query_quality.py runs/multi-query/results.jsonl

Every variant is trained from random weights with the same batches, and its feed-forward layers are as wide as makes
its parameters as many as the baseline's (to half a column of these matrices). All variants get their first seed, then
all their second, so that at any moment they have about equally many. A run that is done is a line in
OUT/results.jsonl; the same command again goes on where it stopped.

GPT-2s learn as in train_gpt2.py: 8 windows of 256 tokens a step. BARTs learn text infilling as in train_bart.py, 32
windows of 64 tokens a step, but start from random numbers: the start of the bundled BART is made for heads of one
width. What helps a small BART to find its place in the source is wider random numbers, 1 / sqrt(width), and position
tables that begin as the same sinusoids in encoder and decoder (and are trained, as all else). There is no dropout:
hardly any text is seen twice. The weights are written, loaded by minidecode and measured there, on the held-out texts.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attention_variants import make_bart, make_gpt2
from corpus import END_OF_TEXT, corrupt_by_infilling, encode_stream
from tokenizers import Tokenizer
from train_bart import SPANS, SPECIALS, bart_tokenizer, held_out_right, make_batch, write_folder
from train_gpt2 import train_and_write
from training import add_training_options, read_texts, train
from transformers import BartConfig, GPT2Config

import minidecode as md
from minidecode.bench import quality

D, H, K, BASE_F = 128, 8, 16, 512  # of the baseline: width, heads, width of a head, feed-forward width
LAYERS = 4  # of a GPT-2; of a BART, half of them encode
CONTEXT = 256  # tokens that a GPT-2 looks at
LENGTH = 64  # tokens of a BART's target
WINDOW = 32  # positions that local attention sees, its own included


@dataclass(frozen=True)
class Variant:
    """A row of the paper's tables: query heads, key/value heads, the width of all, and what local attention sees."""

    H: int
    G: int
    K: int
    window: int | None = None

    def settings(self) -> dict[str, int | None]:
        """As config.json names them."""
        return {"num_key_value_heads": self.G, "key_width": self.K, "value_width": self.K,
                "attention_window": self.window}  # fmt: skip

    def attention_parameters(self) -> int:
        """Weights and biases of the four projections."""
        widths = [self.H * self.K, self.G * self.K, self.G * self.K]
        return sum((D + 1) * width for width in widths) + (self.H * self.K + 1) * D


VARIANTS = {
    "multi-head": Variant(H, H, K),
    "multi-query": Variant(H, 1, K),
    "multi-head local": Variant(H, H, K, WINDOW),
    "multi-query local": Variant(H, 1, K, WINDOW),
    # One cache of keys and values as large as multi-query's, by fewer or by smaller heads.
    "h=1": Variant(1, 1, K),
    "h=2": Variant(2, 2, K // 2),
    "h=4": Variant(4, 4, K // 4),
    "h=8": Variant(8, 8, K // 8),
}


def widened_feed_forward(variant: Variant, attentions: float) -> int:
    """The feed-forward width that gives back what the variant's attention saves (section 4.1).

    attentions: how many there are for each feed-forward layer.
    """
    saved = VARIANTS["multi-head"].attention_parameters() - variant.attention_parameters()
    return BASE_F + round(attentions * saved / (2 * D + 1))  # 2 D + 1: a column, a row and a bias


# ---- GPT-2 -----------------------------------------------------------------------------------------------------------


def gpt2_config(variant: Variant, F: int, tokenizer: Tokenizer) -> GPT2Config:
    end = tokenizer.token_to_id(END_OF_TEXT)
    return GPT2Config(
        vocab_size=tokenizer.get_vocab_size(), n_positions=CONTEXT, n_embd=D, n_layer=LAYERS, n_head=variant.H,
        n_inner=F, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=end,
        eos_token_id=end, **variant.settings(),
    )  # fmt: skip


def measure_gpt2(model: md.Model, texts: list[np.ndarray]) -> dict[str, float]:
    """Of all held-out text, in windows that overlap by half."""
    scores = model.score(input_ids=texts)
    return {"ln_ppl": math.log(scores.perplexity), "bits_per_byte": scores.bits_per_byte}


# ---- BART ------------------------------------------------------------------------------------------------------------


def bart_config(variant: Variant, F: int, tokenizer: Tokenizer) -> BartConfig:
    start, pad, end, _ = (tokenizer.token_to_id(s) for s in SPECIALS)
    return BartConfig(
        vocab_size=tokenizer.get_vocab_size(), d_model=D, encoder_layers=LAYERS // 2, decoder_layers=LAYERS // 2,
        encoder_attention_heads=variant.H, decoder_attention_heads=variant.H, encoder_ffn_dim=F, decoder_ffn_dim=F,
        activation_function="gelu_new", max_position_embeddings=2 * LENGTH, init_std=D**-0.5, dropout=0.0,
        attention_dropout=0.0, activation_dropout=0.0, bos_token_id=start, pad_token_id=pad, eos_token_id=end,
        decoder_start_token_id=end, forced_eos_token_id=end, **variant.settings(),
    )  # fmt: skip


@torch.no_grad()
def start_positions_as_sinusoids(model) -> None:
    """Sets one table of positions for encoder and decoder, its numbers as large as those of the tokens."""
    frequencies = 10_000 ** -(torch.arange(D // 2) / (D // 2))
    for stack in (model.model.encoder, model.model.decoder):
        table = stack.embed_positions.weight
        angle = torch.arange(len(table))[:, None] * frequencies
        table.copy_(2**0.5 * model.config.init_std * torch.cat([angle.sin(), angle.cos()], dim=1))


def train_bart(model, tokenizer: Tokenizer, ids: np.ndarray, held_out_ids: np.ndarray, a: argparse.Namespace) -> float:
    """The BART's train_and_write."""
    start_positions_as_sinusoids(model)

    def batch_at(step: int) -> dict[str, torch.Tensor]:
        return make_batch(np.random.default_rng([a.seed, step]), ids, LENGTH, a.rows, tokenizer)

    def evaluate() -> dict[str, float]:
        return held_out_right(model, held_out_ids, tokenizer, LENGTH)

    seconds = train(model, batch_at, evaluate, a)
    write_folder(model, tokenizer, a.out)
    return seconds


def measure_bart(model: md.Model, texts: list[np.ndarray], windows: int = 256, restored: int = 64) -> dict[str, float]:
    """Of windows of the held-out texts, corrupted as in training, the same for all variants.

    ln_ppl and hidden_right: of the original's tokens, those before them given. bleu and rougeL: of the first windows,
    `restored` by greedy search, against the originals.
    """
    start, _, end, mask = (model.tokenizer.token_to_id(s) for s in SPECIALS)
    stream, rng = np.concatenate(texts), np.random.default_rng(0)
    sources, originals, hidden = [], [], []
    for i in range(windows):
        first = rng.integers(len(stream) - LENGTH)
        originals.append(stream[first : first + LENGTH])
        corrupted, is_hidden = corrupt_by_infilling(rng, originals[-1], mask, SPANS[i % len(SPANS)])
        sources.append(np.array([start, *corrupted, end]))
        hidden.append(is_hidden)
    scores = model.score(input_ids=sources, target_ids=[[start, *original, end] for original in originals])
    log_probs = np.concatenate([p[1:-1] for p in scores.token_log_probs])  # of the window: not of <s> and </s>
    first_choices = np.concatenate([t[1:-1] for t in scores.likeliest_ids])
    is_right = first_choices == np.concatenate(originals)

    answers = []
    for i in range(0, restored, 16):
        answers += model.generate(input_ids=sources[i : i + 16], num_beams=1, max_new_tokens=LENGTH + 16).texts
    references = [model.tokenizer.decode(original) for original in originals[:restored]]
    judged = quality.judge_answers([quality.Answers("", "", model.dtype, answers, 0.0, 0.0)], references).rows[0].scores
    return {"ln_ppl": -log_probs.mean(dtype=np.float64), "hidden_right": is_right[np.concatenate(hidden)].mean(),
            "bleu": judged["bleu"], "rougeL": judged["rougeL"]}  # fmt: skip


# ---- the runs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """What the two kinds of model do differently. train: writes the folder, gives the seconds it took."""

    config: Callable[[Variant, int, Tokenizer], GPT2Config | BartConfig]
    make: Callable[[Any], torch.nn.Module]
    train: Callable[..., float]
    measure: Callable[[md.Model, list[np.ndarray]], dict[str, float]]
    attentions: float  # for each feed-forward layer; a decoder that reads an encoder has two
    tokens_of_row: int
    rows: int
    steps: int
    muon_lr: float
    adam_lr: float


FAMILIES = {
    "gpt2": Family(gpt2_config, make_gpt2, train_and_write, measure_gpt2, 1, CONTEXT, 8, 1000, 4e-3, 3e-3),
    "bart": Family(bart_config, make_bart, train_bart, measure_bart, 1.5, LENGTH, 32, 1000, 1e-2, 1e-2),
}


def finished_runs(path: Path, family: str, budget: dict[str, Any]) -> set[tuple[str, int]]:
    """(variant, seed) of the family's runs in the file. Stops if one had another budget: such runs are not compared."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    runs = [run for run in map(json.loads, lines) if run["family"] == family]
    for run in runs:
        if run["budget"] != budget:
            raise SystemExit(
                f"{path} has runs of another budget, {run['budget']}: give the same options, or other --out"
            )
    return {(run["variant"], run["seed"]) for run in runs}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = p.add_subparsers(dest="family", required=True)
    for name, family in FAMILIES.items():
        kind = kinds.add_parser(name)
        add_training_options(kind, family.steps, family.muon_lr, family.adam_lr)
        kind.add_argument("--gpt2", type=Path, required=True, help="GPT-2 folder whose vocabulary is taken")
        kind.add_argument("--rows", type=int, default=family.rows, help="windows in a batch")
        kind.add_argument("--seeds", type=int, default=3, help="how many, from --seed on")
        kind.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="NAME")
    a = p.parse_args()
    family = FAMILIES[a.family]
    budget = {"steps": a.steps, "tokens": a.steps * a.rows * family.tokens_of_row, "rows": a.rows,
              "muon_lr": a.muon_lr, "adam_lr": a.adam_lr}  # fmt: skip
    results = a.out / "results.jsonl"
    done = finished_runs(results, a.family, budget)

    if a.threads:
        torch.set_num_threads(a.threads)
    plain = Tokenizer.from_file(str(a.gpt2 / "tokenizer.json"))
    tokenizer = bart_tokenizer(a.gpt2) if a.family == "bart" else plain
    train_texts, held_out_texts = read_texts(a)
    ids, held_out = encode_stream(plain, train_texts), [encode_stream(plain, [text]) for text in held_out_texts]
    for seed in range(a.seed, a.seed + a.seeds):
        for name in a.variants:
            if (name, seed) in done:
                continue
            print(f"{a.family}, {name}, seed {seed}")
            out = a.out / f"{a.family}-{name.replace(' ', '-')}-seed{seed}"
            out.mkdir(parents=True, exist_ok=True)
            torch.manual_seed(seed)
            torch.compiler.reset()  # it would give up on the ninth model
            variant = VARIANTS[name]
            F = widened_feed_forward(variant, family.attentions)
            model = family.make(family.config(variant, F, tokenizer))
            options = argparse.Namespace(**vars(a) | {"out": out, "seed": seed})
            seconds = family.train(model, tokenizer, ids, np.concatenate(held_out), options)
            run = {
                "family": a.family, "variant": name, "seed": seed, "budget": budget, "seconds": round(seconds),
                "parameters": sum(x.numel() for x in model.parameters()), "H": variant.H,
                "K": variant.K, "F": F,
                **{key: float(value) for key, value in family.measure(md.load(out), held_out).items()},
            }  # fmt: skip
            with open(results, "a", encoding="utf-8") as f:
                f.write(json.dumps(run) + "\n")
            (out / "checkpoint.pt").unlink()


if __name__ == "__main__":
    main()
