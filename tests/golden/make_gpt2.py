"""Remakes tests/golden/gpt2: small random GPT-2 models, and what transformers 5 computes with them.

    pip install '.[oracle]'
    python tests/golden/make_gpt2.py
    python tests/golden_files.py gpt2

Every seed is fixed, so a second run writes the same files. making.py says what they hold.
"""

from __future__ import annotations

import functools
import random
from pathlib import Path

import numpy as np
import torch
from making import (
    STORED,
    default_cases,
    draw_eos,
    draw_options,
    draw_prompts,
    generation_case,
    load_whole,
    make_all,
    pad,
    random_weights,
    write_cases,
    write_model,
)
from transformers import GPT2Config, GPT2LMHeadModel

OUT = Path(__file__).parent / "gpt2"
BEAMS = (1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5)  # num_beams of the generation cases of one model, in turn

# Name -> the fields of config.json that differ from transformers' own, then how write_folder stores the weights.
# The model "defaults" also gets a generation_config.json.
MODELS = {
    "gelu-new": (dict(n_embd=12, n_head=3, n_layer=2, vocab_size=37), dict()),
    "gelu": (dict(n_embd=10, n_head=2, n_layer=2, vocab_size=31, activation_function="gelu", n_inner=13), dict()),
    "relu": (dict(n_embd=9, n_head=1, n_layer=3, vocab_size=41, activation_function="relu"), dict(prefix="")),
    "silu": (dict(n_embd=14, n_head=2, n_layer=2, vocab_size=33, activation_function="silu", n_inner=40),
             dict(dtype="bfloat16")),
    "tanh": (dict(n_embd=20, n_head=4, n_layer=1, vocab_size=53, activation_function="tanh"), dict(dtype="float16")),
    "untied": (dict(n_embd=15, n_head=5, n_layer=2, vocab_size=35, tie_word_embeddings=False), dict()),
    "untied-unprefixed": (dict(n_embd=8, n_head=4, n_layer=3, vocab_size=29, tie_word_embeddings=False, n_inner=7),
                          dict(prefix="", dtype="float16")),
    "unscaled": (dict(n_embd=6, n_head=2, n_layer=2, vocab_size=34, scale_attn_weights=False), dict()),
    "inverse-layer": (dict(n_embd=15, n_head=3, n_layer=4, vocab_size=30, scale_attn_by_inverse_layer_idx=True,
                           n_inner=11), dict(dtype="bfloat16", prefix="")),
    "inverse-layer-unscaled": (dict(n_embd=7, n_head=1, n_layer=3, vocab_size=43, scale_attn_weights=False,
                                    scale_attn_by_inverse_layer_idx=True, activation_function="silu"), dict()),
    "deep": (dict(n_embd=12, n_head=2, n_layer=4, vocab_size=39, n_inner=17, activation_function="gelu"), dict()),
    "large-epsilon": (dict(n_embd=11, n_head=1, n_layer=2, vocab_size=47, layer_norm_epsilon=0.1), dict()),
    "small-epsilon": (dict(n_embd=18, n_head=3, n_layer=1, vocab_size=32, layer_norm_epsilon=1e-12,
                           activation_function="relu"), dict(dtype="float16", prefix="")),
    "five-heads": (dict(n_embd=35, n_head=5, n_layer=1, vocab_size=36, n_inner=9, layer_norm_epsilon=1e-3), dict()),
    "sharded": (dict(n_embd=12, n_head=4, n_layer=3, vocab_size=38, tie_word_embeddings=False,
                     activation_function="tanh", n_inner=19), dict(shards=3)),
    "old-file": (dict(n_embd=10, n_head=5, n_layer=2, vocab_size=40, activation_function="gelu_pytorch_tanh"),
                 dict(prefix="", old=True)),
    "defaults": (dict(n_embd=12, n_head=2, n_layer=2, vocab_size=45, n_inner=21), dict()),
}  # fmt: skip


# ---- models ----------------------------------------------------------------------------------------------------------


def config_fields(changes: dict) -> dict:
    """The content of a config.json: a context of 24 tokens, EOS and pad inside the small vocabulary."""
    fields = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_positions": 24, "bos_token_id": 0}
    return fields | {"eos_token_id": 1, "pad_token_id": 1} | changes


def make_weights(fields: dict, seed: int) -> dict[str, torch.Tensor]:
    """Name -> random tensor, for every parameter of the model."""
    gains = (".ln_1.weight", ".ln_2.weight", ".ln_f.weight")
    return random_weights(GPT2LMHeadModel(GPT2Config(**fields)), gains, seed)


def write_folder(
    folder: Path, fields: dict, weights: dict, dtype="float32", prefix="transformer.", shards=1, old=False
):
    """config.json and the weights.

    prefix: "" leaves `transformer.` out of the names, as OpenAI's file does. shards: in how many files.
    old: adds what old versions stored too, the causal mask of each layer and a copy of the tied output matrix.
    """
    stored = {n.replace("transformer.", prefix, 1): t.to(STORED[dtype]).contiguous() for n, t in weights.items()}
    if old:
        N = fields["n_positions"]
        for i in range(fields["n_layer"]):
            stored[f"{prefix}h.{i}.attn.bias"] = torch.tril(torch.ones(1, 1, N, N)).to(STORED[dtype])
        stored["lm_head.weight"] = stored[f"{prefix}wte.weight"].clone()
    write_model(folder, fields, stored, shards)


def load_oracle(folder: Path, dtype: torch.dtype) -> GPT2LMHeadModel:
    """The folder as transformers loads it."""
    return load_whole(GPT2LMHeadModel, folder, dtype, ignored=(".attn.bias",))


# ---- what transformers computes --------------------------------------------------------------------------------------


@torch.no_grad()
def oracle_logits(model, prompts: list[list[int]], left: bool = True) -> list[np.ndarray]:
    """Logits (N, V) of each prompt, from one padded batch with attention mask and positions that skip the padding."""
    ids_BN, mask_BN = pad(prompts, 1, left, extra=2)
    pos_BN = np.maximum(mask_BN.cumsum(axis=1) - 1, 0)
    logits_BNV = model(
        torch.tensor(ids_BN), attention_mask=torch.tensor(mask_BN), position_ids=torch.tensor(pos_BN)
    ).logits.numpy()
    return [logits_BNV[b, mask_BN[b] == 1] for b in range(len(prompts))]


# ---- cases -----------------------------------------------------------------------------------------------------------


def plain_cases(rng: random.Random, models: list) -> list[dict | None]:
    """One case for each entry of BEAMS, all options given."""
    cases = []
    for W in BEAMS:
        prompts = draw_prompts(rng, models[0].config.vocab_size)
        eos = draw_eos(rng, models[0], prompts)
        cases.append(generation_case(models, prompts, draw_options(rng, W, eos, prompts)))
    return cases


DEFAULTS = {"num_beams": 3, "eos_token_id": [5, 8], "pad_token_id": 5, "max_new_tokens": 8,
            "no_repeat_ngram_size": 2, "length_penalty": 0.7, "early_stopping": True,
            "num_return_sequences": 2}  # fmt: skip
CALLS = [{}, {"num_beams": 4}, {"max_length": 13}, {"eos_token_id": [7]}, {"length_penalty": 2.0},
         {"no_repeat_ngram_size": 0}, {"early_stopping": "never"}, {"num_return_sequences": 3}]  # fmt: skip


def logits_of(rng: random.Random, model) -> tuple[dict[str, list], list[np.ndarray]]:
    """Prompts of mixed lengths, one of a single token and one as long as the context, and their logits.

    Padded on the left and padded on the right, transformers has to say the same.
    """
    V, N = model.config.vocab_size, model.config.n_positions
    prompts = [[rng.randrange(V) for _ in range(length)] for length in (5, 1, N - 2)]
    expected = oracle_logits(model, prompts)
    for a, b in zip(expected, oracle_logits(model, prompts, left=False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    full = [rng.randrange(V) for _ in range(N)]
    with torch.no_grad():
        expected.append(model(torch.tensor([full])).logits[0].numpy())
    return {"logit_prompts": [*prompts, full]}, expected


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
