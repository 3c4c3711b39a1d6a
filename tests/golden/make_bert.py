"""Remakes tests/golden/bert: small random BERTs, and what transformers 5 computes with them.

    pip install '.[oracle]'
    python tests/golden/make_bert.py
    python tests/golden_files.py bert

Every seed is fixed, so a second run writes the same files. Each model is one folder:

    config.json, model.safetensors   the model, in the Hugging Face layout; the way it is stored differs
    cases.json                       token ids and types of some texts
    expected.npz                     of each text its rows (N, D) in float64; of all the pooled rows and the logits

The numbers come from transformers in float64, each text alone, from the weights as they lie on disk.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import torch
import transformers
from making import STORED, load_whole, random_weights, write_json, write_model

OUT = Path(__file__).parent / "bert"
OLD = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
FOUR = {str(i): name for i, name in enumerate(("war", "peace", "trade", "law"))}
NAMED = dict(id2label=FOUR, label2id={name: int(i) for i, name in FOUR.items()})

# Name -> transformers' class, the fields of config.json that differ from those of config_fields, then how write_folder
# stores the weights.
MODELS = {
    "plain": ("BertModel", dict(), dict()),
    "old-names": ("BertModel", dict(hidden_size=20, num_attention_heads=5), dict(old=True, prefix="bert.")),
    "one-head": ("BertModel", dict(hidden_size=9, num_attention_heads=1, num_hidden_layers=3, hidden_act="relu"),
                 dict(dtype="bfloat16")),
    "gelu-new": ("BertModel", dict(hidden_act="gelu_new", layer_norm_eps=1e-3, type_vocab_size=1), dict(shards=3)),
    "three-types": ("BertModel", dict(type_vocab_size=3, intermediate_size=7, num_attention_heads=6), dict()),
    "labels": ("BertForSequenceClassification", NAMED, dict()),
    "two-labels": ("BertForSequenceClassification",
                   dict(num_hidden_layers=1, problem_type="single_label_classification"), dict(dtype="float16")),
    "several": ("BertForSequenceClassification", dict(problem_type="multi_label_classification", **NAMED),
                dict(shards=2)),
    "regression": ("BertForSequenceClassification", dict(id2label={"0": "score"}, label2id={"score": 0},
                                                         problem_type="regression"), dict()),
    "one-label": ("BertForSequenceClassification", dict(id2label={"0": "relevant"}, label2id={"relevant": 0}), dict()),
    "tokens": ("BertForTokenClassification", NAMED, dict()),
    "tokens-with-pooler": ("BertForTokenClassification", dict(hidden_size=16, num_attention_heads=4, **NAMED),
                           dict(old=True, pooler=True)),
}  # fmt: skip


def config_fields(kind: str, changes: dict) -> dict:
    """The content of a config.json: a context of 24 tokens."""
    return {"model_type": "bert", "architectures": [kind], "vocab_size": 37, "hidden_size": 12, "num_hidden_layers": 2,
            "num_attention_heads": 3, "intermediate_size": 31, "hidden_act": "gelu", "max_position_embeddings": 24,
            "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0} | changes  # fmt: skip


def make_weights(fields: dict, seed: int) -> dict[str, torch.Tensor]:
    """Name -> random tensor, for every parameter of the model."""
    config = transformers.BertConfig(**fields)
    return random_weights(getattr(transformers, fields["architectures"][0])(config), ("LayerNorm.weight",), seed)


def write_folder(
    folder: Path, fields: dict, weights: dict, dtype="float32", prefix=None, shards=1, old=False, pooler=False
) -> None:
    """config.json and the weights. old: norms under their old names, and the buffer of positions.

    pooler: one that the model does not use. prefix: "bert." in front of a plain model's names, which have none.
    """
    stored = {(prefix or "") + n: t.to(STORED[dtype]).contiguous() for n, t in weights.items()}
    lead = prefix or ("bert." if any(n.startswith("bert.") for n in stored) else "")
    if pooler:
        D = fields["hidden_size"]
        stored |= {f"{lead}pooler.dense.weight": torch.ones(D, D), f"{lead}pooler.dense.bias": torch.ones(D)}
    if old:
        for name in [n for n in stored if "LayerNorm" in n]:
            part = ".".join(name.split(".")[-2:])
            stored[name.removesuffix(part) + OLD[part]] = stored.pop(name)
        stored[f"{lead}embeddings.position_ids"] = torch.arange(fields["max_position_embeddings"])[None].float()
    write_model(folder, fields, stored, shards)


def load_oracle(folder: Path, dtype: torch.dtype):
    """The folder as transformers loads it, with a softmax as exact as the dtype."""
    kind = json.loads((folder / "config.json").read_text())["architectures"][0]
    ignored = ("position_ids", "pooler.dense.weight", "pooler.dense.bias")
    model = load_whole(getattr(transformers, kind), folder, dtype, ignored)
    model.set_attn_implementation("sdpa")
    return model


@torch.no_grad()
def expected_of(model, texts: list[list[int]], types: list[list[int]]) -> dict[str, np.ndarray]:
    """Name -> numbers: rows_b of each text; pooled and logits of all, where the model has them."""
    found: dict[str, list] = {}
    for b, (ids, kinds) in enumerate(zip(texts, types, strict=True)):
        ids_1N, kinds_1N = torch.tensor([ids]), torch.tensor([kinds])
        base = getattr(model, "bert", model)
        out = base(ids_1N, token_type_ids=kinds_1N)
        found[f"rows_{b}"] = [out.last_hidden_state[0].numpy()]
        if base.pooler is not None:
            found.setdefault("pooled", []).append(out.pooler_output[0].numpy())
        if base is not model:
            logits = model(ids_1N, token_type_ids=kinds_1N).logits[0].numpy()
            found.setdefault("logits" if logits.ndim == 1 else f"logits_{b}", []).append(logits)
    return {name: np.stack(rows) if name in ("pooled", "logits") else rows[0] for name, rows in found.items()}


def draw_texts(rng: random.Random, fields: dict) -> tuple[list[list[int]], list[list[int]]]:
    """(ids, types) of texts of mixed lengths, one of a single token and one as long as the context."""
    V, N, kinds = fields["vocab_size"], fields["max_position_embeddings"], fields["type_vocab_size"]
    lengths = (5, 1, N, 3, 9)
    return ([[rng.randrange(V) for _ in range(n)] for n in lengths],
            [sorted(rng.randrange(kinds) for _ in range(n)) for n in lengths])  # fmt: skip


def main() -> None:
    """All folders."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    shutil.rmtree(OUT, ignore_errors=True)
    for i, (name, (kind, changes, storage)) in enumerate(MODELS.items()):
        folder, fields, seed = OUT / name, config_fields(kind, changes), 1000 + 10 * i
        write_folder(folder, fields, make_weights(fields, seed), **storage)
        texts, types = draw_texts(random.Random(seed), fields)
        expected = expected_of(load_oracle(folder, torch.float64), texts, types)
        write_json(folder / "cases.json", {"ids": texts, "types": types})
        np.savez(folder / "expected.npz", **expected)
        print(f"{name}: {', '.join(sorted({key.partition('_')[0] for key in expected}))}", flush=True)
    write_json(
        OUT / "summary.json", {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
    )


if __name__ == "__main__":
    main()
