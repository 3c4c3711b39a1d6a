"""Remakes tests/golden/marian: small random Marian models, and what transformers 5 computes with them.

    pip install '.[oracle]'
    python tests/golden/make_marian.py
    python tests/golden_files.py marian

Every seed is fixed, so a second run writes the same files. making.py says what they hold; here the prompts are
sources, and the logits are those of the targets in "logit_targets".

transformers keeps the row of the padding in its output matrix; minidecode leaves it out, as Marian itself has none. So
the padding gets a logit of -1e30 here. transformers rounds its sinusoids to float32, also in a float64 model: tables of
float64 are computed here, and compared with its own.
"""

from __future__ import annotations

import functools
import math
import random
from pathlib import Path

import numpy as np
import torch
from make_bart import draw_pair_options, oracle_logits, pair_case, plain_cases, sizes
from making import (
    STORED,
    default_cases,
    load_whole,
    make_all,
    random_tensor,
    random_weights,
    write_cases,
    write_model,
)
from transformers import MarianConfig, MarianMTModel

OUT = Path(__file__).parent / "marian"
SHARED = "model.shared.weight"
TIED = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
POSITIONS = tuple(f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder"))

# Name -> the fields of config.json that differ from those of config_fields, then how write_folder stores the weights.
MODELS = {
    "published": (sizes(16, 37, (2, 2), (4, 4), (24, 24)), dict(zero_pad=True)),
    "half": (sizes(12, 41, (2, 1), (3, 2), (17, 20)), dict(dtype="float16", zero_pad=True)),
    "odd-width": (sizes(15, 33, (1, 2), (3, 5), (11, 7)), dict(dtype="bfloat16")),
    "relu": (sizes(10, 35, (3, 1), (2, 5), (21, 13), activation_function="relu"), dict(zero_pad=True)),
    "gelu": (sizes(14, 39, (1, 1), (7, 2), (9, 30), activation_function="gelu"), dict(bias=False)),
    "not-scaled": (sizes(12, 36, (2, 2), (2, 6), (14, 22), scale_embedding=False), dict()),
    "old-file": (sizes(12, 34, (1, 2), (4, 3), (19, 10)), dict(copies=TIED, positions=True, zero_pad=True)),
    "renamed": (sizes(8, 40, (2, 1), (2, 4), (18, 12)), dict(copies=TIED[:1], shared=False)),
    "two-vocabularies": (sizes(10, 37, (1, 2), (5, 2), (16, 25), share_encoder_decoder_embeddings=False,
                               decoder_vocab_size=43), dict()),
    "two-tables": (sizes(12, 38, (2, 1), (3, 4), (20, 15), share_encoder_decoder_embeddings=False),
                   dict(shards=2, zero_pad=True)),
    "untied": (sizes(9, 42, (1, 2), (1, 3), (13, 14), tie_word_embeddings=False), dict(shards=3)),
    "defaults": (sizes(10, 45, (1, 2), (2, 1), (21, 13)), dict(zero_pad=True)),
}  # fmt: skip
DEFAULTS = {"num_beams": 4, "eos_token_id": 0, "pad_token_id": 44, "decoder_start_token_id": 44, "max_length": 14,
            "forced_eos_token_id": 0, "bad_words_ids": [[44]], "renormalize_logits": True}  # fmt: skip
CALLS = [{}, {"num_beams": 2}, {"max_length": 9}, {"max_new_tokens": 6}, {"num_beams": 3, "no_repeat_ngram_size": 2},
         {"length_penalty": 0.6}, {"eos_token_id": [7, 0]}, {"num_return_sequences": 3}]  # fmt: skip


# ---- models ----------------------------------------------------------------------------------------------------------


def config_fields(changes: dict) -> dict:
    """The content of a config.json: up to 14 tokens; </s> is 0; the padding is the last token, and begins targets."""
    last = changes["vocab_size"] - 1
    fields = {"model_type": "marian", "architectures": ["MarianMTModel"], "max_position_embeddings": 14,
              "activation_function": "swish", "scale_embedding": True, "normalize_before": False,
              "normalize_embedding": False, "add_final_layer_norm": False, "static_position_embeddings": True,
              "eos_token_id": 0, "pad_token_id": last, "decoder_start_token_id": last}  # fmt: skip
    return fields | changes


def target_size(fields: dict) -> int:
    return fields.get("decoder_vocab_size") or fields["vocab_size"]


def generated_vocab_size(fields: dict) -> int:
    """The tokens that minidecode generates: all but the padding, where that is the last one."""
    return target_size(fields) - (fields["pad_token_id"] == target_size(fields) - 1)


def make_weights(fields: dict, seed: int, zero_pad: bool) -> dict[str, torch.Tensor]:
    """Name -> random tensor, for every parameter but the positions and for final_logits_bias.

    zero_pad: the padding's row and its bias are zeros, as the converter from Marian makes them.
    """
    model = MarianMTModel(MarianConfig(**fields))
    weights = random_weights(model, ("layer_norm.weight",), seed)
    generator = torch.Generator().manual_seed(seed + 1)
    bias = random_tensor((1, target_size(fields)), generator)
    weights = {name: t for name, t in weights.items() if name not in POSITIONS} | {"final_logits_bias": bias}
    if zero_pad:
        for name, tensor in weights.items():
            if name == SHARED or name in TIED:
                tensor[fields["pad_token_id"]] = 0.0
        bias[0, fields["pad_token_id"]] = 0.0
    return weights


def write_folder(
    folder: Path, fields: dict, seed: int, dtype="float32", shards=1, bias=True, copies=(), shared=True,
    positions=False, zero_pad=False,
):  # fmt: skip
    """config.json and the weights.

    copies: the names under which the tied matrix is stored too, or, without `shared`, instead. positions: tables of
    positions are stored, which nobody needs. zero_pad: see make_weights.
    """
    weights = make_weights(fields, seed, zero_pad)
    kept = {name: t for name, t in weights.items() if bias or name != "final_logits_bias"}
    kept |= {copy: weights[SHARED].clone() for copy in copies}
    if not shared:
        del kept[SHARED]
    if positions:
        kept |= {name: sinusoids(14, fields["d_model"]).clone() for name in POSITIONS}
    write_model(folder, fields, {n: t.to(STORED[dtype]).contiguous() for n, t in kept.items()}, shards)


def sinusoids(P: int, D: int) -> torch.Tensor:
    """Row p: sin(p w_0), sin(p w_1), ..., then cos(p w_0), ..., where w_i = 10000^(-2i/D)."""
    angle_PD = [[p / 10000 ** (2 * (j // 2) / D) for j in range(D)] for p in range(P)]
    sines = [[math.sin(a) for a in row[0::2]] + [math.cos(a) for a in row[1::2]] for row in angle_PD]
    return torch.tensor(sines, dtype=torch.float64)


@torch.no_grad()
def load_oracle(folder: Path, fields: dict, dtype: torch.dtype) -> MarianMTModel:
    """The folder as transformers loads it, with exact positions, and without a padding that could be generated."""
    model = load_whole(MarianMTModel, folder, dtype, ignored=())
    exact = sinusoids(fields["max_position_embeddings"], fields["d_model"])
    # No sinusoid is above 1, so rounding moves one by at most the unit roundoff: 2**-9 of bfloat16, the coarsest format
    # that a file may have it in, and 2**-24 of float32, in which transformers computes it.
    for stack in (model.model.encoder, model.model.decoder):
        torch.testing.assert_close(stack.embed_positions.weight.double(), exact, rtol=0, atol=2**-9)
        stack.embed_positions.weight.copy_(exact)
    torch.testing.assert_close(model.model.encoder.embed_positions.create_weight().double(), exact, rtol=0, atol=2**-24)
    model.final_logits_bias[0, generated_vocab_size(fields) :] = -1e30
    return model


# ---- what transformers computes --------------------------------------------------------------------------------------


def logits_of(rng: random.Random, model, fields: dict) -> tuple[dict[str, list], list[np.ndarray]]:
    """Sources and targets of mixed lengths, and the targets' logits, in a padded batch and alone the same."""
    V, N = fields["vocab_size"], fields["max_position_embeddings"]
    sources = [[rng.randrange(V) for _ in range(length)] for length in (6, 1, N, 3)]
    start = fields["decoder_start_token_id"]
    targets = [[start, *(rng.randrange(V) for _ in range(length - 1))] for length in (3, 5, 1, N)]
    expected = oracle_logits(model, sources, targets)
    for source, target, batch_NV in zip(sources, targets, expected, strict=True):
        np.testing.assert_allclose(oracle_logits(model, [source], [target])[0], batch_NV, rtol=1e-9, atol=1e-9)
    size = generated_vocab_size(fields)
    return {"logit_prompts": sources, "logit_targets": targets}, [a[:, :size] for a in expected]


# ---- cases -----------------------------------------------------------------------------------------------------------


def draw_generated(rng: random.Random, W: int, eos: list[int] | None, model) -> dict:
    """As draw_pair_options; the padding is forced nowhere."""
    while True:
        options = draw_pair_options(rng, W, eos, model)
        forced = (np.atleast_1d(options.get(f"forced_{place}_token_id", 0)) for place in ("bos", "eos"))
        if all((ids < model.config.vocab_size - 1).all() for ids in forced):
            return options


def make(name: str, seed: int) -> tuple[int, int]:
    """One folder. Returns how many generation cases were kept and how many dropped as near ties."""
    changes, storage = MODELS[name]
    folder, fields = OUT / name, config_fields(changes)
    write_folder(folder, fields, seed, **storage)
    cases = functools.partial(plain_cases, draw=draw_generated)
    if name == "defaults":
        cases = functools.partial(default_cases, folder, DEFAULTS, CALLS, pair_case)
    return write_cases(
        folder, functools.partial(load_oracle, folder, fields), seed, functools.partial(logits_of, fields=fields), cases
    )


if __name__ == "__main__":
    make_all(OUT, MODELS, make)
