"""Remakes tests/golden/bart: small random BART models, and what transformers 5 computes with them.

    pip install '.[oracle]'
    python tests/golden/make_bart.py
    python tests/golden_files.py bart

Every seed is fixed, so a second run writes the same files. making.py says what they hold; here the prompts are
sources, and the logits are those of the targets in "logit_targets".
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from making import (
    STORED,
    default_cases,
    draw_eos,
    draw_options,
    draw_prompts,
    generate_alone,
    generation_case,
    load_whole,
    make_all,
    oracle_generate,
    pad,
    random_tensor,
    random_weights,
    write_cases,
    write_model,
)
from transformers import BartConfig, BartForConditionalGeneration

OUT = Path(__file__).parent / "bart"
BEAMS = (1, 1, 2, 3, 3, 4, 4, 5)  # num_beams of the generation cases of one model, in turn
SHARED = "model.shared.weight"
TIED = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")


def sizes(D, V, layers, heads, F, **flags) -> dict:
    """Fields of config.json; layers, heads and feed-forward widths are (encoder's, decoder's)."""
    pairs = {"layers": layers, "attention_heads": heads, "ffn_dim": F}
    both = {f"{side}_{name}": pair[i] for name, pair in pairs.items() for i, side in enumerate(("encoder", "decoder"))}
    return {"d_model": D, "vocab_size": V, **both, **flags}


# Name -> the fields of config.json, then how write_folder stores the weights. The models "defaults" and "summaries"
# also get a generation_config.json.
MODELS = {
    "gelu": (sizes(12, 37, (2, 2), (3, 2), (13, 20)), dict()),
    "relu": (sizes(9, 31, (3, 1), (3, 1), (11, 7), activation_function="relu"), dict(bias=False)),
    "silu": (sizes(14, 33, (2, 2), (2, 7), (40, 9), activation_function="silu", scale_embedding=True),
             dict(dtype="bfloat16")),
    "swish": (sizes(10, 43, (1, 2), (5, 2), (10, 21), activation_function="swish", decoder_start_token_id=0), dict()),
    "tanh": (sizes(20, 41, (1, 1), (4, 5), (8, 33), activation_function="tanh"), dict(dtype="float16")),
    "gelu-new": (sizes(8, 29, (2, 3), (4, 1), (17, 12), activation_function="gelu_new"), dict(dtype="float16")),
    "gelu-tanh": (sizes(15, 30, (1, 2), (1, 3), (6, 31), activation_function="gelu_pytorch_tanh"), dict(bias=False)),
    "scaled": (sizes(12, 34, (2, 1), (2, 4), (19, 14), scale_embedding=True), dict()),
    "untied": (sizes(10, 35, (1, 2), (2, 5), (23, 5), tie_word_embeddings=False), dict()),
    "untied-scaled": (sizes(8, 32, (1, 2), (2, 8), (9, 16), tie_word_embeddings=False, scale_embedding=True,
                            decoder_start_token_id=7, activation_function="relu"), dict(dtype="bfloat16")),
    "old-file": (sizes(12, 36, (1, 1), (2, 3), (15, 22)), dict(copies=TIED, old=True)),
    "renamed": (sizes(10, 38, (2, 1), (1, 2), (18, 10), scale_embedding=True), dict(copies=TIED[:1], shared=False)),
    "unprefixed": (sizes(14, 39, (2, 1), (7, 2), (12, 28), activation_function="relu"), dict(prefix="", bias=False)),
    "sharded": (sizes(9, 40, (2, 1), (1, 3), (14, 11), tie_word_embeddings=False), dict(shards=3)),
    "sharded-halves": (sizes(16, 30, (1, 2), (8, 4), (7, 24), activation_function="silu"),
                       dict(shards=2, dtype="bfloat16", copies=TIED[2:])),
    "distilled": (sizes(12, 42, (3, 1), (4, 4), (24, 24), decoder_start_token_id=5), dict(bias=False)),
    "defaults": (sizes(10, 45, (1, 2), (2, 1), (21, 13), activation_function="gelu_new"), dict()),
    "summaries": (sizes(12, 44, (2, 1), (3, 6), (16, 25), forced_bos_token_id=0, forced_eos_token_id=2), dict()),
}  # fmt: skip


# ---- models ----------------------------------------------------------------------------------------------------------


def config_fields(changes: dict) -> dict:
    """The content of a config.json: sources and targets of up to 14 tokens, and BART's own special tokens."""
    fields = {"model_type": "bart", "architectures": ["BartForConditionalGeneration"], "max_position_embeddings": 14}
    special = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    return fields | special | changes


def make_weights(fields: dict, seed: int) -> dict[str, torch.Tensor]:
    """Name -> random tensor, for every parameter of the model and for final_logits_bias."""
    model = BartForConditionalGeneration(BartConfig(**fields))
    weights = random_weights(model, ("layer_norm.weight", "layernorm_embedding.weight"), seed)
    generator = torch.Generator().manual_seed(seed + 1)
    bias = random_tensor((1, fields["vocab_size"]), generator)
    return weights | {"final_logits_bias": bias}


def write_folder(
    folder: Path, fields: dict, weights: dict, dtype="float32", prefix="model.", shards=1, bias=True, copies=(),
    shared=True, old=False,
):  # fmt: skip
    """config.json and the weights.

    prefix: "" leaves `model.` out of the names, as a file of BartModel does, which has no bias either. copies: the
    names under which the tied matrix is stored too, or, without `shared`, instead; the library leaves out all but one
    name, and not always the same. old: adds the mark that files made from fairseq's hold. shards: in how many files.
    """
    kept = {name: t for name, t in weights.items() if bias or name != "final_logits_bias"}
    kept |= {copy: weights[SHARED].clone() for copy in copies}
    if not shared:
        del kept[SHARED]
    if old:
        kept |= {f"model.{side}.version": torch.tensor([3.0]) for side in ("encoder", "decoder")}
    stored = {name.replace("model.", prefix, 1): t.to(STORED[dtype]).contiguous() for name, t in kept.items()}
    write_model(folder, fields, stored, shards)


def load_oracle(folder: Path, dtype: torch.dtype) -> BartForConditionalGeneration:
    """The folder as transformers loads it."""
    return load_whole(BartForConditionalGeneration, folder, dtype, ignored=("coder.version",))


# ---- what transformers computes --------------------------------------------------------------------------------------


@torch.no_grad()
def oracle_logits(model, sources: list[list[int]], targets: list[list[int]]) -> list[np.ndarray]:
    """Logits (N, V) of each target, from one batch padded on the right: BART counts positions from the left."""
    source_BN, source_mask_BN = pad(sources, 1, left=False)
    target_BN, target_mask_BN = pad(targets, 1, left=False)
    logits_BNV = model(
        input_ids=torch.tensor(source_BN), attention_mask=torch.tensor(source_mask_BN),
        decoder_input_ids=torch.tensor(target_BN),
    ).logits.numpy()  # fmt: skip
    return [logits_BNV[b, target_mask_BN[b] == 1] for b in range(len(targets))]


def logits_of(rng: random.Random, model) -> tuple[dict[str, list], list[np.ndarray]]:
    """Sources and targets of mixed lengths, single tokens and whole contexts among them, and the targets' logits.

    In a padded batch and alone, transformers has to say the same.
    """
    V, N = model.config.vocab_size, model.config.max_position_embeddings
    sources = [[rng.randrange(V) for _ in range(length)] for length in (6, 1, N, 3)]
    start = model.config.decoder_start_token_id
    targets = [[start, *(rng.randrange(V) for _ in range(length - 1))] for length in (3, 5, 1, N)]
    expected = oracle_logits(model, sources, targets)
    for source, target, batch_NV in zip(sources, targets, expected, strict=True):
        np.testing.assert_allclose(oracle_logits(model, [source], [target])[0], batch_NV, rtol=1e-9, atol=1e-9)
    return {"logit_prompts": sources, "logit_targets": targets}, expected


# ---- cases -----------------------------------------------------------------------------------------------------------


def draw_pair_options(rng: random.Random, W: int, eos: list[int] | None, model) -> dict:
    """Options of `generate` for a beam of W, those for encoder-decoder models included.

    Of two tokens forced at the end both are certain, so beams tie exactly and transformers keeps any: greedy only.
    """
    V = model.config.vocab_size
    options = draw_options(rng, W, eos, [[model.config.decoder_start_token_id]])
    begin, end, other = rng.sample([t for t in range(V) if t not in (eos or [])], 3)
    if rng.random() < 0.35:
        options["forced_bos_token_id"] = begin
    if rng.random() < 0.4:
        end = eos[0] if eos and rng.random() < 0.5 else end
        options["forced_eos_token_id"] = rng.choice([end, [end], [end, other] if W == 1 else end])
    if rng.random() < 0.3:
        options["decoder_start_token_id"] = rng.randrange(V)
    return options


def pair_case(models: list, sources: list[list[int]], options: dict) -> dict | None:
    """As generation_case. Should transformers let a sentence's batch change its tokens, alone is the truth."""
    alone = generate_alone(models[0], sources, options)
    coupled = alone[0] != oracle_generate(models[0], sources, options)[0]
    if coupled:
        print(f"transformers couples the sentences of this batch: {sources}, {options}")
    return generation_case(models, sources, options, generate_alone if coupled else oracle_generate)


def plain_cases(
    rng: random.Random, models: list, beams: Iterable[int] = BEAMS, draw: Callable[..., dict] = draw_pair_options
) -> list[dict | None]:
    """One case for each number of beams, all options given but, for most, the token that targets begin with."""
    cases = []
    for W in beams:
        sources = draw_prompts(rng, models[0].config.vocab_size)
        eos = draw_eos(rng, models[0], sources)
        cases.append(pair_case(models, sources, draw(rng, W, eos, models[0])))
    return cases


# Name -> generation_config.json, and the options of each call; "summaries" is like bart-large-cnn's, only shorter.
DEFAULTS = {
    "defaults": (
        {"num_beams": 3, "eos_token_id": [5, 8], "pad_token_id": 5, "max_new_tokens": 8, "decoder_start_token_id": 9,
         "no_repeat_ngram_size": 2, "length_penalty": 0.7, "num_return_sequences": 2, "forced_bos_token_id": 4},
        [{}, {"num_beams": 4}, {"max_length": 11}, {"eos_token_id": [7]}, {"forced_bos_token_id": 6},
         {"decoder_start_token_id": 3}, {"early_stopping": "never"}, {"num_return_sequences": 3}],
    ),
    "summaries": (
        {"bos_token_id": 0, "decoder_start_token_id": 2, "early_stopping": True, "eos_token_id": 2,
         "forced_bos_token_id": 0, "forced_eos_token_id": 2, "length_penalty": 2.0, "max_length": 14, "min_length": 6,
         "no_repeat_ngram_size": 3, "num_beams": 4, "pad_token_id": 1},
        [{}, {"num_beams": 2}, {"min_length": 2}, {"max_length": 9}, {"max_new_tokens": 6}, {"length_penalty": 0.0},
         {"early_stopping": False}, {"num_return_sequences": 4}],
    ),
}  # fmt: skip


def make(name: str, seed: int) -> tuple[int, int]:
    """One folder. Returns how many generation cases were kept and how many dropped as near ties."""
    changes, storage = MODELS[name]
    folder, fields = OUT / name, config_fields(changes)
    write_folder(folder, fields, make_weights(fields, seed), **storage)
    cases = plain_cases
    if name in DEFAULTS:
        cases = functools.partial(default_cases, folder, *DEFAULTS[name], pair_case)
    return write_cases(folder, functools.partial(load_oracle, folder), seed, logits_of, cases)


if __name__ == "__main__":
    make_all(OUT, MODELS, make)
