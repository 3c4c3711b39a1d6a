"""Remakes tests/golden/gpt_bigcode: small random StarCoder-like models, and what transformers 5 computes with them.

    pip install '.[oracle]'
    python tests/golden/make_gpt_bigcode.py
    python tests/golden_files.py gpt_bigcode

Every seed is fixed, so a second run writes the same files. making.py says what they hold. transformers' own attention
has a softmax of float32, also in a float64 model: torch's stands in for it.
"""

from __future__ import annotations

import functools
import random
from pathlib import Path

import torch
from make_gpt2 import CALLS, DEFAULTS, logits_of
from making import (
    STORED,
    default_cases,
    draw_eos,
    draw_options,
    draw_prompts,
    generation_case,
    load_whole,
    make_all,
    random_weights,
    write_cases,
    write_model,
)
from transformers import GPTBigCodeConfig, GPTBigCodeForCausalLM

OUT = Path(__file__).parent / "gpt_bigcode"
BEAMS = (1, 1, 2, 2, 3, 3, 4, 5)  # num_beams of the generation cases of one model, in turn

# Name -> the fields of config.json that differ from transformers' own, then how write_folder stores the weights.
MODELS = {
    "multi-query": (dict(n_embd=12, n_head=3, vocab_size=37), dict()),
    "multi-head": (dict(n_embd=12, n_head=3, vocab_size=37, multi_query=False), dict()),
    "four-layers": (dict(n_embd=18, n_head=3, n_layer=4, vocab_size=41, n_inner=19), dict(dtype="bfloat16")),
    "multi-head-gelu": (dict(n_embd=10, n_head=5, vocab_size=31, activation_function="gelu", multi_query=False),
                        dict(dtype="float16")),
    "one-head": (dict(n_embd=9, n_head=1, n_layer=3, vocab_size=43, activation_function="relu"), dict()),
    "one-of-its-own": (dict(n_embd=11, n_head=1, vocab_size=33, multi_query=False), dict(prefix="")),
    "untied": (dict(n_embd=20, n_head=4, vocab_size=35, tie_word_embeddings=False), dict(shards=3)),
    "multi-head-untied": (dict(n_embd=14, n_head=2, vocab_size=38, tie_word_embeddings=False, multi_query=False,
                               n_inner=13), dict(shards=2)),
    "unscaled": (dict(n_embd=12, n_head=6, vocab_size=34, scale_attn_weights=False), dict(dtype="float16")),
    "narrow-layer": (dict(n_embd=15, n_head=5, n_layer=1, vocab_size=47, n_inner=7, layer_norm_epsilon=1e-3),
                     dict(prefix="")),
    "old-file": (dict(n_embd=16, n_head=8, vocab_size=36, activation_function="silu", multi_query=False),
                 dict(old=True)),
    "defaults": (dict(n_embd=12, n_head=2, vocab_size=45, n_inner=21), dict(dtype="bfloat16")),
}  # fmt: skip


def config_fields(changes: dict) -> dict:
    """The content of a config.json: a context of 24 tokens, EOS and pad inside the small vocabulary."""
    fields = {"model_type": "gpt_bigcode", "architectures": ["GPTBigCodeForCausalLM"], "n_positions": 24, "n_layer": 2}
    return fields | {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1} | changes


def make_weights(fields: dict, seed: int) -> dict[str, torch.Tensor]:
    """Name -> random tensor, for every parameter of the model."""
    gains = (".ln_1.weight", ".ln_2.weight", ".ln_f.weight")
    return random_weights(GPTBigCodeForCausalLM(GPTBigCodeConfig(**fields)), gains, seed)


def write_folder(
    folder: Path, fields: dict, weights: dict, dtype="float32", prefix="transformer.", shards=1, old=False
):
    """config.json and the weights. prefix and shards: as make_gpt2.py has them. old: with masks, and the tied head."""
    stored = {n.replace("transformer.", prefix, 1): t.to(STORED[dtype]).contiguous() for n, t in weights.items()}
    if old:
        N = fields["n_positions"]
        mask = {f"{prefix}h.{i}.attn.bias": torch.tril(torch.ones(1, 1, N, N)) for i in range(fields["n_layer"])}
        stored |= mask | {"lm_head.weight": stored[f"{prefix}wte.weight"].clone()}
    write_model(folder, fields, stored, shards)


def load_oracle(folder: Path, dtype: torch.dtype) -> GPTBigCodeForCausalLM:
    """The folder as transformers loads it, with a softmax as exact as the dtype."""
    model = load_whole(GPTBigCodeForCausalLM, folder, dtype, ignored=(".attn.bias",))
    model.set_attn_implementation("sdpa")
    return model


def plain_cases(rng: random.Random, models: list) -> list[dict | None]:
    """One case for each entry of BEAMS, all options given."""
    cases = []
    for W in BEAMS:
        prompts = draw_prompts(rng, models[0].config.vocab_size)
        options = draw_options(rng, W, draw_eos(rng, models[0], prompts), prompts)
        cases.append(generation_case(models, prompts, options))
    return cases


def make(name: str, seed: int) -> tuple[int, int]:
    """One folder. Returns how many generation cases were kept and how many dropped as near ties."""
    changes, storage = MODELS[name]
    folder, fields = OUT / name, config_fields(changes)
    write_folder(folder, fields, make_weights(fields, seed), **storage)
    cases = plain_cases
    if name == "defaults":
        cases = functools.partial(default_cases, folder, DEFAULTS, CALLS, generation_case)
    return write_cases(folder, functools.partial(load_oracle, folder), seed, logits_of, cases)


if __name__ == "__main__":
    make_all(OUT, MODELS, make)
