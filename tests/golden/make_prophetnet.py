"""Remakes tests/golden/prophetnet: small random ProphetNet models, and what transformers 5 computes with them.

    pip install '.[oracle]'
    python tests/golden/make_prophetnet.py
    python tests/golden_files.py prophetnet

Every seed is fixed, so a second run writes the same files. making.py says what they hold; here the prompts are
sources, and the logits are those of the targets in "logit_targets".

transformers has wrong logits for several target tokens in one call: it puts the relative biases of the predict streams
in another order. Its cached steps of one token each are right. So logits come from such steps, and so does `generate`.
transformers takes softmax in float32, also in a float64 model, and overflows in a mask there: that is undone here. It
has as many caches as the encoder has layers: no decoder here has more.
"""

from __future__ import annotations

import functools
import random
from pathlib import Path

import numpy as np
import torch
from make_bart import pair_case, plain_cases
from making import (
    STORED,
    default_cases,
    load_whole,
    make_all,
    random_weights,
    write_cases,
    write_model,
)
from transformers import ProphetNetConfig, ProphetNetForConditionalGeneration
from transformers.models.prophetnet import modeling_prophetnet

OUT = Path(__file__).parent / "prophetnet"
SHARED = "prophetnet.word_embeddings.weight"
COPIES = (
    "prophetnet.encoder.word_embeddings.weight", "prophetnet.decoder.word_embeddings.weight", "lm_head.weight",
)  # fmt: skip
STRONGER = ("decoder.position_embeddings.weight", *(f"self_attn.{p}_proj.weight" for p in ("query", "value", "out")))


def sizes(D, V, layers, heads, F, ngram=2, buckets=(8, 12), **flags) -> dict:
    """Fields of config.json; layers, heads and feed-forward widths are (encoder's, decoder's).

    buckets: their number, and the largest distance.
    """
    fields = {"hidden_size": D, "vocab_size": V, "ngram": ngram, "num_buckets": buckets[0],
              "relative_max_distance": buckets[1]}  # fmt: skip
    for i, side in enumerate(("encoder", "decoder")):
        fields |= {f"num_{side}_layers": layers[i], f"num_{side}_attention_heads": heads[i], f"{side}_ffn_dim": F[i]}
    return fields | flags


# Name -> the fields of config.json that differ from those of config_fields, then how write_folder stores the weights.
MODELS = {
    "two-ahead": (sizes(12, 37, (2, 2), (3, 2), (13, 20)), dict()),
    "one-ahead": (sizes(10, 33, (3, 3), (2, 5), (17, 9), 1), dict(dtype="bfloat16")),
    "three-ahead": (sizes(9, 31, (2, 2), (1, 3), (11, 14), 3), dict()),
    "relu": (sizes(14, 36, (3, 1), (7, 2), (9, 30), 3, activation_function="relu"), dict(dtype="float16")),
    "silu": (sizes(15, 35, (2, 2), (5, 3), (21, 8), activation_function="silu"), dict()),
    "other-buckets": (sizes(12, 34, (2, 1), (2, 6), (14, 22), 2, (9, 20)), dict()),
    "few-buckets": (sizes(8, 38, (1, 1), (4, 2), (19, 12), 2, (4, 3)), dict()),
    "one-head": (sizes(10, 40, (2, 2), (5, 1), (12, 16)), dict(prefix="")),
    "old-file": (sizes(12, 32, (2, 2), (2, 3), (15, 10)), dict(copies=COPIES)),
    "renamed": (sizes(10, 39, (2, 1), (1, 2), (18, 13)), dict(copies=COPIES[1:2], shared=False)),
    "untied": (sizes(8, 42, (3, 2), (2, 4), (10, 24), tie_word_embeddings=False), dict(shards=3)),
    "defaults": (sizes(12, 45, (2, 2), (4, 3), (16, 11)), dict(shards=2)),
}  # fmt: skip
# generation_config.json of the model "defaults", which is like prophetnet-large-uncased-cnndm's, only shorter.
DEFAULTS = {"num_beams": 4, "bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 0, "decoder_start_token_id": 2,
            "max_length": 14, "length_penalty": 2.0, "no_repeat_ngram_size": 3, "early_stopping": True}  # fmt: skip
CALLS = [{}, {"num_beams": 2}, {"max_length": 9}, {"max_new_tokens": 6}, {"num_beams": 3, "min_length": 5},
         {"length_penalty": 0.6}, {"eos_token_id": [7, 2]}, {"num_return_sequences": 3}]  # fmt: skip


# ---- models ----------------------------------------------------------------------------------------------------------


def config_fields(changes: dict) -> dict:
    """The content of a config.json: 24 positions; [SEP] begins and ends targets."""
    fields = {"model_type": "prophetnet", "architectures": ["ProphetNetForConditionalGeneration"],
              "max_position_embeddings": 24, "bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 0,
              "decoder_start_token_id": 2}  # fmt: skip
    return fields | changes


def write_folder(
    folder: Path, fields: dict, seed: int, dtype="float32", shards=1, copies=(), shared=True, prefix="prophetnet."
) -> None:  # fmt: skip
    """config.json and the weights.

    copies: names under which the table is stored too, or, without `shared`, instead. prefix: "" leaves `prophetnet.`
    out of the names, as a file of ProphetNetModel does.
    """
    model = ProphetNetForConditionalGeneration(ProphetNetConfig(**fields))
    kept = random_weights(model, ("layer_norm.weight",), seed)
    for name in kept:  # what a query row attends to outweighs where it stands: or all texts would go on alike
        if name.startswith("prophetnet.decoder") and name.endswith(STRONGER):
            kept[name] *= 3
    kept |= {copy: kept[SHARED].clone() for copy in copies}
    if not shared:
        del kept[SHARED]
    stored = {n.replace("prophetnet.", prefix, 1): t.to(STORED[dtype]).contiguous() for n, t in kept.items()}
    write_model(folder, fields, stored, shards)


def with_whole_masks(forward):
    """A forward pass that takes masks in the model's own dtype."""

    @functools.wraps(forward)
    def call(self, *args, **given):
        masks = {k: v.to(self.dtype) for k, v in given.items() if k.endswith("attention_mask") and v is not None}
        return forward(self, *args, **given | masks)

    return call


modeling_prophetnet.softmax = lambda x, dim, onnx_trace=False: torch.softmax(x, dim)
for stack in (modeling_prophetnet.ProphetNetEncoder, modeling_prophetnet.ProphetNetDecoder):
    stack.forward = with_whole_masks(stack.forward)


def load_oracle(folder: Path, dtype: torch.dtype) -> ProphetNetForConditionalGeneration:
    """The folder as transformers loads it."""
    return load_whole(ProphetNetForConditionalGeneration, folder, dtype, ignored=())


# ---- what transformers computes --------------------------------------------------------------------------------------


@torch.no_grad()
def oracle_logits(model, sources: list[list[int]], targets: list[list[int]]) -> list[np.ndarray]:
    """Logits (N, V) of each target, pair by pair and token by token, each step over the cache of those before."""
    logits = []
    for source, target in zip(sources, targets, strict=True):
        state = {"encoder_outputs": model.get_encoder()(torch.tensor([source])), "past_key_values": None}
        rows = []
        for token in target:
            out = model(decoder_input_ids=torch.tensor([[token]]), use_cache=True, **state)
            state["past_key_values"] = out.past_key_values
            rows.append(out.logits[0, -1].numpy())
        logits.append(np.stack(rows))
    return logits


def longest(fields: dict) -> tuple[int, int]:
    """The most tokens of a source and of a target, whose query row has a position too."""
    return fields["max_position_embeddings"] - 1, fields["max_position_embeddings"] - 2


def logits_of(rng: random.Random, model, fields: dict) -> tuple[dict[str, list], list[np.ndarray]]:
    """Sources and targets of mixed lengths, single tokens and whole contexts among them, and the targets' logits."""
    V, (N, T) = fields["vocab_size"], longest(fields)
    sources = [[rng.randrange(V) for _ in range(length)] for length in (6, 1, N, 3)]
    start = fields["decoder_start_token_id"]
    targets = [[start, *(rng.randrange(V) for _ in range(length - 1))] for length in (3, 5, 1, T)]
    return {"logit_prompts": sources, "logit_targets": targets}, oracle_logits(model, sources, targets)


# ---- cases -----------------------------------------------------------------------------------------------------------


def make(name: str, seed: int) -> tuple[int, int]:
    """One folder. Returns how many generation cases were kept and how many dropped as near ties."""
    changes, storage = MODELS[name]
    folder, fields = OUT / name, config_fields(changes)
    write_folder(folder, fields, seed, **storage)
    cases = plain_cases
    if name == "defaults":
        cases = functools.partial(default_cases, folder, DEFAULTS, CALLS, pair_case)
    return write_cases(
        folder, functools.partial(load_oracle, folder), seed, functools.partial(logits_of, fields=fields), cases
    )


if __name__ == "__main__":
    make_all(OUT, MODELS, make)
