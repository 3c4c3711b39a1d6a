"""Remakes tests/golden/llama: small random models of the Llama family, and what transformers 5 computes with them.

    pip install '.[oracle]'
    python tests/golden/make_llama.py
    python tests/golden_files.py llama

Every seed is fixed, so a second run writes the same files. making.py says what they hold. transformers computes norms,
softmax and the angles of the rotation in float32, also in a float64 model. So torch's own RMSNorm and attention stand
in for the first two, and angles are computed here, and compared with its own. Each prompt is asked alone.

transformers 4.49 as it is (norms and softmax in float32) agrees with eleven of the twelve: logits to 8e-6, and the
tokens of the 16 greedy cases that were tried. It does not read rope_parameters, so of "parameters" it has other logits.
"""

from __future__ import annotations

import functools
import math
import random
from pathlib import Path

import numpy as np
import torch
import transformers
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
    random_weights,
    write_cases,
    write_model,
)

OUT = Path(__file__).parent / "llama"
BEAMS = (1, 1, 2, 2, 3, 3, 4, 5)  # num_beams of the generation cases of one model, in turn
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}  # fmt: skip

# Name -> the fields of config.json that differ from those of config_fields, then how write_folder stores the weights.
MODELS = {
    "multi-head": (dict(), dict()),
    "grouped": (dict(num_attention_heads=6, num_key_value_heads=2), dict(dtype="bfloat16")),
    "multi-query": (dict(num_key_value_heads=1, rope_theta=500.0), dict(dtype="float16")),
    "wide-heads": (dict(num_attention_heads=6, num_key_value_heads=2, head_dim=8, attention_bias=True, mlp_bias=True),
                   dict()),
    "untied": (dict(tie_word_embeddings=False, rms_norm_eps=1e-3), dict(shards=3)),
    "linear": (dict(rope_scaling={"type": "linear", "factor": 2.5}, hidden_act="gelu"), dict()),
    "llama3": (dict(rope_scaling=LLAMA3, rope_theta=50.0, head_dim=10, num_key_value_heads=2), dict(dtype="bfloat16")),
    "parameters": (dict(rope_parameters={"rope_theta": 100.0, **LLAMA3}, tie_word_embeddings=False), dict()),
    "relu": (dict(hidden_act="relu", hidden_size=20, num_attention_heads=5, num_key_value_heads=5, vocab_size=41),
             dict()),
    "qwen2": (dict(model_type="qwen2", num_attention_heads=6, num_key_value_heads=3, num_hidden_layers=1), dict()),
    "mistral": (dict(model_type="mistral", num_key_value_heads=2, sliding_window=5, num_hidden_layers=3),
                dict(dtype="float16")),
    "defaults": (dict(vocab_size=45, intermediate_size=21), dict()),
}  # fmt: skip


# ---- models ----------------------------------------------------------------------------------------------------------


def config_fields(changes: dict) -> dict:
    """The content of a config.json: a context of 24 tokens, EOS and pad inside the small vocabulary."""
    fields = {"model_type": "llama", "vocab_size": 37, "hidden_size": 24, "intermediate_size": 31, "head_dim": None,
              "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "hidden_act": "silu",
              "max_position_embeddings": 24, "rope_theta": 10000.0, "tie_word_embeddings": True,
              "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1} | changes  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


def class_of(fields: dict):
    """transformers' model of this model_type."""
    return getattr(transformers, {"llama": "Llama", "qwen2": "Qwen2", "mistral": "Mistral"}[fields["model_type"]]
                   + "ForCausalLM")  # fmt: skip


def make_weights(fields: dict, seed: int) -> dict[str, torch.Tensor]:
    """Name -> random tensor, for every parameter of the model."""
    kind = class_of(fields)
    return random_weights(kind(kind.config_class(**fields)), ("norm.weight",), seed)


def write_folder(folder: Path, fields: dict, weights: dict, dtype="float32", shards=1):
    """config.json and the weights."""
    write_model(folder, fields, {n: t.to(STORED[dtype]).contiguous() for n, t in weights.items()}, shards)


class ExactRotation(torch.nn.Module):
    """transformers' rotary module with angles of float64."""

    def __init__(self, theirs, rope: dict, K: int):
        super().__init__()
        self.f_X = torch.tensor([self.frequency(rope, rope["rope_theta"] ** (-2 * i / K)) for i in range(K // 2)],
                                dtype=torch.float64)  # fmt: skip
        torch.testing.assert_close(self.f_X.float(), theirs.inv_freq.float(), rtol=1e-6, atol=0)

    @staticmethod
    def frequency(rope: dict, f: float) -> float:
        """Long waves are divided by the factor, short ones are not; of those between, a share."""
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind == "linear":
            return f / rope["factor"]
        if kind == "default":
            return f
        low, high, wave = rope["low_freq_factor"], rope["high_freq_factor"], 2 * math.pi / f
        if wave > rope["original_max_position_embeddings"] / low:
            return f / rope["factor"]
        if wave < rope["original_max_position_embeddings"] / high:
            return f
        share = (rope["original_max_position_embeddings"] / wave - low) / (high - low)
        return (1 - share) * f / rope["factor"] + share * f

    def forward(self, x, position_ids, *rest):
        angle_BNX = position_ids[..., None].double() * self.f_X
        angle_BNK = torch.cat([angle_BNX, angle_BNX], dim=-1)
        return angle_BNK.cos().to(x.dtype), angle_BNK.sin().to(x.dtype)


def load_oracle(folder: Path, fields: dict, dtype: torch.dtype):
    """The folder as transformers loads it, with norms, softmax and angles as exact as the dtype."""
    model = load_whole(class_of(fields), folder, dtype, ignored=())
    c = model.config
    K = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    model.model.rotary_emb = ExactRotation(model.model.rotary_emb, c.rope_parameters, K)
    model.set_attn_implementation("sdpa")
    norms = [(n, m) for n, m in model.named_modules() if n.endswith("norm")]
    for name, theirs in norms:
        exact = torch.nn.RMSNorm(c.hidden_size, c.rms_norm_eps, dtype=dtype)
        exact.weight = theirs.weight
        model.set_submodule(name, exact)
    return model


# ---- what transformers computes --------------------------------------------------------------------------------------


@torch.no_grad()
def logits_of(rng: random.Random, model) -> tuple[dict[str, list], list[np.ndarray]]:
    """Prompts of mixed lengths, one of a single token and one as long as the context, and the logits of each."""
    V, N = model.config.vocab_size, model.config.max_position_embeddings
    prompts = [[rng.randrange(V) for _ in range(length)] for length in (5, 1, N - 2, N)]
    logits = [model(torch.tensor([prompt])).logits[0].numpy() for prompt in prompts]
    return {"logit_prompts": prompts}, logits


# ---- cases -----------------------------------------------------------------------------------------------------------


DEFAULTS = {"num_beams": 3, "eos_token_id": [5, 8], "pad_token_id": 5, "max_new_tokens": 8,
            "no_repeat_ngram_size": 2, "length_penalty": 0.7, "early_stopping": True,
            "num_return_sequences": 2}  # fmt: skip
CALLS = [{}, {"num_beams": 4}, {"eos_token_id": [7]}, {"length_penalty": 2.0}, {"num_return_sequences": 3}]


def case(models: list, prompts, options: dict) -> dict | None:
    """Each prompt of it asked alone."""
    return generation_case(models, prompts, options, generate_alone)


def plain_cases(rng: random.Random, models: list) -> list[dict | None]:
    """One case for each entry of BEAMS, all options given."""
    cases = []
    for W in BEAMS:
        prompts = draw_prompts(rng, models[0].config.vocab_size)
        eos = draw_eos(rng, models[0], prompts[:1])
        cases.append(case(models, prompts, draw_options(rng, W, eos, prompts)))
    return cases


def make(name: str, seed: int) -> tuple[int, int]:
    """One folder. Returns how many generation cases were kept and how many dropped as near ties."""
    changes, storage = MODELS[name]
    folder, fields = OUT / name, config_fields(changes)
    write_folder(folder, fields, make_weights(fields, seed), **storage)
    cases = plain_cases
    if name == "defaults":
        cases = functools.partial(default_cases, folder, DEFAULTS, CALLS, case)
    return write_cases(folder, functools.partial(load_oracle, folder, fields), seed, logits_of, cases)


if __name__ == "__main__":
    make_all(OUT, MODELS, make)
