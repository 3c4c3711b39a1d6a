"""Remakes tests/golden/unilm: small random UniLMs, and what transformers 5 computes with them.

    pip install '.[oracle]'
    python tests/golden/make_unilm.py
    python tests/golden_files.py unilm

Every seed is fixed, so a second run writes the same files. making.py says what each folder holds.

transformers has no UniLM. Its BertForMaskedLM is one if norms add 1e-5, and if it is given the mask, the positions and
the types of all rows, [MASK] rows included (tests/unilm_oracle.py). Texts come from the search of s2s-ft
(tests/s2s_ft.py) over these logits.
"""

from __future__ import annotations

import functools
import random
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

sys.path.append(str(Path(__file__).parents[1]))

from making import STORED, generation_case, make_all, nudged, random_weights, write_expected, write_model
from s2s_ft import s2s_ft
from unilm_oracle import rows_of

OUT = Path(__file__).parent / "unilm"
OLD = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
SEP, MASK, CASES = 2, 3, 9

# Name -> the fields of config.json that differ from those of config_fields, then how write_folder stores the weights.
MODELS = {
    "plain": (dict(), dict()),
    "old-names": (dict(hidden_size=20, num_attention_heads=5), dict(old=True)),
    "fast-qkv": (dict(hidden_size=16, num_attention_heads=4), dict(fast=True)),
    "one-head": (dict(hidden_size=9, num_attention_heads=1, num_hidden_layers=3), dict(dtype="bfloat16")),
    "gelu-new": (dict(hidden_act="gelu_new", type_vocab_size=2), dict(shards=3)),
    "other-types": (dict(type_vocab_size=3, source_type_id=2, target_type_id=0, intermediate_size=7), dict()),
    "six-heads": (dict(hidden_size=18, num_attention_heads=6, mask_token_id=7), dict(dtype="float16")),
    "pooler": (dict(hidden_act="relu"), dict(pooler=True)),
    "shift": (dict(pos_shift=True), dict()),
    "shift-deep": (dict(pos_shift=True, hidden_size=10, num_attention_heads=2, num_hidden_layers=4), dict(shards=2)),
    "shift-fast": (dict(pos_shift=True, hidden_size=15, type_vocab_size=2), dict(fast=True)),
    "no-types": (dict(type_vocab_size=1, target_type_id=0, hidden_act="silu"), dict(old=True)),
}  # fmt: skip


def config_fields(changes: dict) -> dict:
    """The content of a config.json: a context of 24 tokens. The file's eps is BERT's, which UniLM does not read."""
    return {"model_type": "unilm", "vocab_size": 37, "hidden_size": 12, "num_hidden_layers": 2,
            "num_attention_heads": 3, "intermediate_size": 31, "hidden_act": "gelu", "max_position_embeddings": 24,
            "type_vocab_size": 6, "layer_norm_eps": 1e-12, "pad_token_id": 0, "eos_token_id": SEP,
            "decoder_start_token_id": SEP, "mask_token_id": MASK} | changes  # fmt: skip


def bert_config(fields: dict) -> transformers.BertConfig:
    """What BertForMaskedLM is told: UniLM's eps."""
    return transformers.BertConfig(**fields | {"model_type": "bert", "layer_norm_eps": 1e-5})


def make_weights(fields: dict, seed: int) -> dict[str, torch.Tensor]:
    """Name -> random tensor, for every parameter of the model."""
    return random_weights(transformers.BertForMaskedLM(bert_config(fields)), ("LayerNorm.weight",), seed)


def write_folder(
    folder: Path, fields: dict, weights: dict, dtype="float32", shards=1, old=False, fast=False, pooler=False
) -> None:
    """config.json and the weights. old: norms under their old names. fast: one matrix of queries, keys and values.

    pooler: with what UniLM's own files have and decoding does not read.
    """
    stored = {name: t.to(STORED[dtype]).contiguous() for name, t in weights.items()}
    if fast:
        for name in [name for name in stored if name.endswith("self.query.weight")]:
            stem, parts = name.removesuffix("query.weight"), ("query", "key", "value")
            stored[f"{stem}qkv_linear.weight"] = torch.cat([stored.pop(f"{stem}{part}.weight") for part in parts])
            q, _, v = (stored.pop(f"{stem}{part}.bias") for part in parts)
            stored |= {f"{stem}q_bias": q, f"{stem}v_bias": v}
    if old:
        for name in [name for name in stored if "LayerNorm" in name]:
            part = ".".join(name.split(".")[-2:])
            stored[name.removesuffix(part) + OLD[part]] = stored.pop(name)
        stored["bert.embeddings.position_ids"] = torch.arange(fields["max_position_embeddings"])[None].float()
    if pooler:
        D = fields["hidden_size"]
        stored |= {"bert.pooler.dense.weight": torch.ones(D, D), "bert.pooler.dense.bias": torch.ones(D),
                   "cls.seq_relationship.weight": torch.ones(2, D), "cls.seq_relationship.bias": torch.ones(2),
                   "cls.predictions.decoder.weight": stored["bert.embeddings.word_embeddings.weight"].clone(),
                   }  # fmt: skip
    write_model(folder, fields, stored, shards)


def load_oracle(fields: dict, weights: dict, dtype: torch.dtype, stored: str = "float32"):
    """BertForMaskedLM with these weights as a file stores them, attention written out."""
    config = bert_config(fields)
    config._attn_implementation = "eager"
    model = transformers.BertForMaskedLM(config).to(dtype)
    rounded = {name: t.to(STORED[stored]).to(dtype) for name, t in weights.items()}
    missing, unknown = model.load_state_dict(rounded, strict=False)
    assert not unknown and set(missing) <= {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}, missing
    model.tie_weights()
    model.fields = fields
    return model.eval()


@torch.no_grad()
def oracle_logits(model, source: list[int], target: list[int]) -> np.ndarray:
    """The logits (T, V) behind each token of a target, its first one included, by one masked forward pass."""
    ids, positions, types, sees, predicts = rows_of(model.fields, source, target)
    dtype = next(model.parameters()).dtype
    mask = torch.zeros(sees.shape, dtype=dtype).masked_fill(~torch.tensor(sees), torch.finfo(dtype).min)[None, None]
    given = {"position_ids": torch.tensor([positions]), "token_type_ids": torch.tensor([types])}
    return model(torch.tensor([ids]), attention_mask=mask, **given).logits[0, predicts].double().numpy()


def generate(model, sources: list[list[int]], options: dict) -> tuple[list[list[int]], list[float]]:
    """(new tokens, score) of each source: by s2s-ft's beam search, or the likeliest token of each step."""
    found, W = [], options["num_beams"]
    for source in sources:
        read = source[:-1] if model.fields.get("pos_shift") else source

        @functools.cache
        def behind(text, read=read):
            return oracle_logits(model, read, [SEP, *text])[-1]

        n, least = options["no_repeat_ngram_size"], options["min_new_tokens"]
        if W > 1:
            alpha, limit = options["length_penalty"], options["max_new_tokens"]
            found.append(s2s_ft(lambda text: behind(tuple(text)), SEP, W, limit, alpha, n, least)[:2])
        else:
            found.append(greedy(lambda text: behind(tuple(text)), options["max_new_tokens"], least))
    return [tokens for tokens, _ in found], [score for _, score in found]


def greedy(logits_of, limit: int, least: int) -> tuple[list[int], float]:
    """The likeliest token of each step, and the sum of log-probabilities."""
    text, total = [], 0.0
    while len(text) < limit and SEP not in text:
        logits_V = logits_of(text)
        ranked = [t for t in np.argsort(-logits_V) if t != SEP or len(text) >= least]
        shifted_V = logits_V - logits_V.max()
        total += float(shifted_V[ranked[0]] - np.log(np.exp(shifted_V).sum()))
        text.append(int(ranked[0]))
    return text, total


def draw_source(rng: random.Random, longest: int = 12) -> list[int]:
    """[CLS] text [SEP]; some use few tokens, so that n-grams repeat."""
    few = rng.sample(range(4, 37), 3) if rng.random() < 0.5 else range(4, 37)
    return [1, *(rng.choice(few) for _ in range(rng.randint(1, longest - 2))), SEP]


def draw_options(rng: random.Random) -> dict:
    """Options of a search of the dialect unilm."""
    W = rng.choice([1, 2, 3, 4])
    new = rng.randint(2, 9)
    return {"dialect": "unilm", "num_beams": W, "max_new_tokens": new,
            "min_new_tokens": rng.choice([0, 1, 1, new // 2]),
            "length_penalty": rng.choice([0.0, 0.6, 1.0]) if W > 1 else 0.0,
            "no_repeat_ngram_size": rng.choice([0, 2, 3]) if W > 1 else 0}  # fmt: skip


def make(name: str, seed: int) -> tuple[int, int]:
    """One folder -> (cases kept, cases dropped near ties)."""
    (changes, storage), rng = MODELS[name], random.Random(seed)
    fields = config_fields(changes)
    weights = make_weights(fields, seed)
    if storage.get("fast"):
        weights |= {n: torch.zeros_like(t) for n, t in weights.items() if n.endswith("self.key.bias")}
    # [SEP] is likelier, so that texts end.
    weights["cls.predictions.bias"][SEP] += 1.5
    folder, stored = OUT / name, storage.get("dtype", "float32")
    write_folder(folder, fields, weights, **storage)
    exact, plain = (load_oracle(fields, weights, dtype, stored) for dtype in (torch.float64, torch.float32))
    models = [exact, plain, *(with_fields(nudged(exact, seed + i), fields) for i in (1, 2))]
    sources = [draw_source(rng) for _ in range(3)]
    targets = [[SEP, *(rng.randrange(4, 37) for _ in range(n))] for n in (5, 0, 9)]
    read = [s[:-1] if fields.get("pos_shift") else s for s in sources]
    logits = [oracle_logits(exact, s, t) for s, t in zip(read, targets, strict=True)]
    cases = [
        generation_case(models, [draw_source(rng) for _ in range(rng.randint(1, 4))], draw_options(rng), generate)
        for _ in range(CASES)
    ]
    kept = [case for case in cases if case]
    write_expected(folder, {"logit_prompts": sources, "logit_targets": targets}, logits, kept)
    return len(kept), len(cases) - len(kept)


def with_fields(model, fields: dict):
    """A copy that knows what oracle_logits reads."""
    model.fields = fields
    return model


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    make_all(OUT, MODELS, make)
