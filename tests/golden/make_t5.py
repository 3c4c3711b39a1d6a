"""Remakes tests/golden/t5: small random T5, mT5 and UMT5 models, and what transformers 5 computes with them.

    pip install '.[oracle]'
    python tests/golden/make_t5.py
    python tests/golden_files.py t5

Every seed is fixed, so a second run writes the same files. making.py says what they hold; prompts are sources, and the
logits are those of the targets in "logit_targets", which are long enough for the buckets of far distances.

transformers 5 scales the logits of a UMT5 with a head of its own; 4.49 does not, and is right. So that is undone here.
4.49 has the logits of ten of the twelve to 4e-6. It does not know scale_decoder_outputs, and believes
tie_word_embeddings: so "not-scaled" and "written-by-5" differ there.
"""

from __future__ import annotations

import functools
import random
from pathlib import Path

import numpy as np
import torch
from make_bart import oracle_logits, pair_case, plain_cases
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
from transformers import MT5ForConditionalGeneration, T5ForConditionalGeneration, UMT5ForConditionalGeneration

OUT = Path(__file__).parent / "t5"
BEAMS = (1, 2, 3, 4)  # num_beams of the generation cases of one model, in turn
CLASSES = {
    "t5": T5ForConditionalGeneration, "mt5": MT5ForConditionalGeneration, "umt5": UMT5ForConditionalGeneration,
}  # fmt: skip
COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
OLD_BIAS = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
GATED, UNTIED = {"feed_forward_proj": "gated-gelu"}, {"tie_word_embeddings": False}


def sizes(D, V, layers, heads, d_kv, F, buckets=(8, 12), **flags) -> dict:
    """Fields of config.json; layers are (encoder's, decoder's), buckets (their number, the largest distance)."""
    return {
        "d_model": D, "vocab_size": V, "num_layers": layers[0], "num_decoder_layers": layers[1], "num_heads": heads,
        "d_kv": d_kv, "d_ff": F, "relative_attention_num_buckets": buckets[0],
        "relative_attention_max_distance": buckets[1], **flags,
    }  # fmt: skip


# Name -> the fields of config.json, then how write_folder stores the weights. transformers 5 keeps one cache for the
# layers of the encoder: no decoder here has more.
MODELS = {
    "relu": (sizes(12, 37, (2, 2), 3, 5, 20), dict()),
    "gated-untied": (sizes(10, 33, (2, 1), 2, 7, 9, (8, 20), **GATED, **UNTIED), dict()),
    "gated-tied": (sizes(9, 31, (2, 2), 3, 3, 14, **GATED), dict(dtype="bfloat16")),
    "gated-silu": (sizes(14, 36, (1, 1), 5, 2, 11, (16, 64), feed_forward_proj="gated-silu", **UNTIED), dict()),
    "not-scaled": (sizes(8, 30, (2, 1), 4, 3, 13, scale_decoder_outputs=False), dict(dtype="float16")),
    "written-by-5": (sizes(11, 35, (1, 1), 2, 6, 8, **GATED, scale_decoder_outputs=False, tie_word_embeddings=True),
                     dict(head=True)),
    "old-file": (sizes(12, 34, (2, 2), 3, 4, 10), dict(copies=COPIES, old=True, lacks=("num_decoder_layers",))),
    "copied-head": (sizes(10, 38, (1, 1), 1, 9, 15), dict(copies=(*COPIES[:1], "lm_head.weight"))),
    "renamed": (sizes(8, 32, (2, 1), 2, 5, 17, (4, 9), feed_forward_proj="gelu"),
                dict(copies=COPIES[1:], shared=False)),
    "mt5": (sizes(12, 40, (2, 2), 2, 5, 7, model_type="mt5", **GATED, **UNTIED), dict(dtype="bfloat16")),
    "umt5": (sizes(10, 36, (2, 2), 3, 4, 9, model_type="umt5", **GATED, **UNTIED), dict()),
    "defaults": (sizes(9, 39, (2, 2), 2, 5, 12, **GATED, **UNTIED), dict(shards=2)),
}  # fmt: skip


def config_fields(changes: dict) -> dict:
    """The content of a config.json, with T5's own special tokens."""
    special = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    fields = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]} | special | changes
    return fields | {"is_encoder_decoder": True}


def make_weights(fields: dict, seed: int, head: bool) -> dict[str, torch.Tensor]:
    """Name -> random tensor, for every parameter of the model; head: whether the output is a matrix of its own."""
    family = CLASSES[fields["model_type"]]
    weights = random_weights(family(family.config_class(**fields)), ("layer_norm.weight",), seed)
    weights.pop("lm_head.weight", None)
    for name in weights:
        if name.endswith("Attention.q.weight"):  # as small as T5's own start has it, for scores are not divided
            weights[name] *= fields["d_kv"] ** -0.5
    if head:
        generator = torch.Generator().manual_seed(seed + 1)
        weights["lm_head.weight"] = random_tensor(weights["shared.weight"].shape, generator)
    return weights


def write_folder(
    folder: Path, fields: dict, seed: int, dtype="float32", shards=1, head=None, copies=(), shared=True, old=False,
    lacks=(),
):  # fmt: skip
    """config.json and the weights.

    head: a matrix of its own for the output, whatever the config says; None: as it says. copies: the names under which
    the table is stored too, or, without `shared`, instead. old: adds the bias of cross attention that the first files
    hold, and nothing reads. lacks: fields that config.json does not have. shards: in how many files.
    """
    weights = make_weights(fields, seed, not fields.get("tie_word_embeddings", True) if head is None else head)
    kept = weights | {copy: weights["shared.weight"].clone() for copy in copies}
    if not shared:
        del kept["shared.weight"]
    if old:
        kept[OLD_BIAS] = torch.ones((fields["relative_attention_num_buckets"], fields["num_heads"]))
    stored = {name: t.to(STORED[dtype]).contiguous() for name, t in kept.items()}
    write_model(folder, {name: value for name, value in fields.items() if name not in lacks}, stored, shards)


class WholeNorm(torch.nn.Module):
    """T5's RMS norm in the model's own dtype: transformers takes the mean square in float32, in a float64 model too."""

    def __init__(self, norm):
        super().__init__()
        self.weight, self.eps = norm.weight, norm.variance_epsilon

    def forward(self, x_BND):
        return self.weight * x_BND * torch.rsqrt(x_BND.pow(2).mean(-1, keepdim=True) + self.eps)


def load_oracle(folder: Path, fields: dict, dtype: torch.dtype):
    """The folder as transformers loads it."""
    model = load_whole(CLASSES[fields["model_type"]], folder, dtype, ignored=(OLD_BIAS,))
    if fields["model_type"] == "umt5":
        model.config.tie_word_embeddings = False  # see above
    for name, module in list(model.named_modules()):
        if name.endswith("layer_norm"):
            model.set_submodule(name, WholeNorm(module))
    return model


def logits_of(rng: random.Random, model) -> tuple[dict[str, list], list[np.ndarray]]:
    """Sources and targets of mixed lengths, single tokens among them, and the targets' logits.

    In a padded batch and alone, transformers has to say the same.
    """
    V = model.config.vocab_size
    sources = [[rng.randrange(V) for _ in range(length)] for length in (6, 1, 24, 3)]
    targets = [[0, *(rng.randrange(V) for _ in range(length - 1))] for length in (3, 5, 1, 22)]
    expected = oracle_logits(model, sources, targets)
    for source, target, batch_NV in zip(sources, targets, expected, strict=True):
        np.testing.assert_allclose(oracle_logits(model, [source], [target])[0], batch_NV, rtol=1e-9, atol=1e-9)
    return {"logit_prompts": sources, "logit_targets": targets}, expected


# generation_config.json of the model "defaults", which is like t5-base's summarization, only shorter; and the calls.
DEFAULTS = (
    {"num_beams": 4, "eos_token_id": 1, "pad_token_id": 0, "max_length": 14, "min_length": 5, "early_stopping": True,
     "decoder_start_token_id": 0, "no_repeat_ngram_size": 3, "length_penalty": 2.0},
    [{}, {"num_beams": 2}, {"max_new_tokens": 6}, {"min_length": 2}],
)  # fmt: skip


def make(name: str, seed: int) -> tuple[int, int]:
    """One folder. Returns how many generation cases were kept and how many dropped as near ties."""
    changes, storage = MODELS[name]
    folder, fields = OUT / name, config_fields(changes)
    write_folder(folder, fields, seed, **storage)
    cases = functools.partial(plain_cases, beams=BEAMS)
    if name == "defaults":
        cases = functools.partial(default_cases, folder, *DEFAULTS, pair_case)
    return write_cases(folder, functools.partial(load_oracle, folder, fields), seed, logits_of, cases)


if __name__ == "__main__":
    make_all(OUT, MODELS, make)
