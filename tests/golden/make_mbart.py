"""Remakes tests/golden/mbart: small random mBART models, and what transformers 5 computes with them.

    pip install '.[oracle]'
    python tests/golden/make_mbart.py
    python tests/golden_files.py mbart

Every seed is fixed, so a second run writes the same files. making.py says what they hold; here the prompts are
sources, and the logits are those of the targets in "logit_targets".
"""

from __future__ import annotations

import functools
from pathlib import Path

import torch
from make_bart import TIED, logits_of, pair_case, plain_cases, sizes
from make_bart import write_folder as write_bart
from making import default_cases, load_whole, make_all, random_tensor, random_weights, write_cases
from transformers import MBartConfig, MBartForConditionalGeneration

OUT = Path(__file__).parent / "mbart"

# Name -> the fields of config.json that differ from those of config_fields, then how write_folder stores the weights.
MODELS = {
    "gelu": (sizes(12, 37, (2, 2), (3, 2), (13, 20)), dict()),
    "relu": (sizes(9, 31, (3, 1), (3, 1), (11, 7), activation_function="relu"), dict(bias=False)),
    "silu": (sizes(14, 33, (2, 2), (2, 7), (40, 9), activation_function="silu"), dict(dtype="bfloat16")),
    "half": (sizes(20, 41, (1, 1), (4, 5), (8, 33), activation_function="relu"), dict(dtype="float16")),
    "not-scaled": (sizes(12, 34, (2, 1), (2, 4), (19, 14), scale_embedding=False), dict()),
    "old-file": (sizes(12, 36, (1, 1), (2, 3), (15, 22)), dict(copies=TIED, old=True)),
    "renamed": (sizes(10, 38, (2, 1), (1, 2), (18, 10)), dict(copies=TIED[:1], shared=False)),
    "unprefixed": (sizes(14, 39, (2, 1), (7, 2), (12, 28)), dict(prefix="", bias=False)),
    "untied": (sizes(10, 35, (1, 2), (2, 5), (23, 5), tie_word_embeddings=False), dict(shards=3)),
    "starts-with-code": (sizes(8, 32, (1, 2), (2, 8), (9, 16), decoder_start_token_id=29), dict(dtype="bfloat16")),
    "distilled": (sizes(12, 42, (3, 1), (4, 4), (24, 24)), dict(shards=2, bias=False)),
    "defaults": (sizes(10, 45, (1, 2), (2, 1), (21, 13)), dict()),
}  # fmt: skip
DEFAULTS = {"num_beams": 3, "eos_token_id": 2, "pad_token_id": 1, "decoder_start_token_id": 2, "max_length": 14,
            "forced_eos_token_id": 2, "early_stopping": True}  # fmt: skip
# mBART-50 has no default of forced_bos_token_id: each call says into which language.
CALLS = [{"forced_bos_token_id": 40}, {"forced_bos_token_id": 41, "num_beams": 5}, {"forced_bos_token_id": 42},
         {"forced_bos_token_id": 43, "max_length": 9}, {"forced_bos_token_id": 41, "num_return_sequences": 2},
         {"decoder_start_token_id": 42}, {"decoder_start_token_id": 40, "length_penalty": 2.0},
         {"forced_bos_token_id": 40, "no_repeat_ngram_size": 2}]  # fmt: skip


def config_fields(changes: dict) -> dict:
    """The content of a config.json: sources and targets of up to 14 tokens, and fairseq's special tokens."""
    fields = {"model_type": "mbart", "architectures": ["MBartForConditionalGeneration"], "max_position_embeddings": 14,
              "scale_embedding": True, "normalize_before": True, "normalize_embedding": True,
              "add_final_layer_norm": True, "static_position_embeddings": False, "bos_token_id": 0, "pad_token_id": 1,
              "eos_token_id": 2, "decoder_start_token_id": 2}  # fmt: skip
    return fields | changes


def write_folder(folder: Path, fields: dict, seed: int, **storage):
    """config.json and random weights, stored as make_bart.py says."""
    model = MBartForConditionalGeneration(MBartConfig(**fields))
    weights = random_weights(model, ("layer_norm.weight", "layernorm_embedding.weight"), seed)
    generator = torch.Generator().manual_seed(seed + 1)
    bias = random_tensor((1, fields["vocab_size"]), generator)
    write_bart(folder, fields, weights | {"final_logits_bias": bias}, **storage)


def load_oracle(folder: Path, dtype: torch.dtype) -> MBartForConditionalGeneration:
    """The folder as transformers loads it."""
    return load_whole(MBartForConditionalGeneration, folder, dtype, ignored=("coder.version",))


def make(name: str, seed: int) -> tuple[int, int]:
    """One folder. Returns how many generation cases were kept and how many dropped as near ties."""
    changes, storage = MODELS[name]
    folder, fields = OUT / name, config_fields(changes)
    write_folder(folder, fields, seed, **storage)
    cases = plain_cases
    if name == "defaults":
        cases = functools.partial(default_cases, folder, DEFAULTS, CALLS, pair_case)
    return write_cases(folder, functools.partial(load_oracle, folder), seed, logits_of, cases)


if __name__ == "__main__":
    make_all(OUT, MODELS, make)
