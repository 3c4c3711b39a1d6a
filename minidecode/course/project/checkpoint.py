"""The checkpoint that a student's engine loads: tiny-gpt2, or a variation of it under a student's name.

A variation computes the same function. Its tensors have other names and another layout, its inner channels another
order, and its feed-forward is wider by neurons that give nothing. So it says the same texts, and an engine that was
written for one does not read another.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError

NAMES = (  # embedding, positions, prefix of a layer, its parts (norm, attention, out, norm, up, down), last norm
    ("tokens", "places", "layer{}", "pre", "attend", "mix", "mid", "grow", "shrink", "end"),
    ("embed.word", "embed.position", "blocks.{}", "norm_a", "qkv", "proj", "norm_b", "fc_in", "fc_out", "norm_f"),
    ("E", "P", "L{}", "n1", "a", "o", "n2", "u", "d", "n3"),
)
QKV = (
    "all queries, head by head, then all keys, then all values",
    "of each head its query, its key, its value, then the next head's",
)
AXES = ("(inputs, outputs): y = x @ W + b", "(outputs, inputs): y = x @ W.T + b")
WIDER = (32, 64, 96, 128)  # neurons of the feed-forward that give nothing


def write_checkpoint(folder: Path, student: str | None) -> None:
    """config.json, model.safetensors, tokenizer.json, LAYOUT.txt. Without a student: tiny-gpt2 as it is published."""
    from safetensors.numpy import load_file, save_file

    from ...files.folder import bundled_models

    source = Path(bundled_models()["tiny-gpt2"])
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / "tokenizer.json", folder / "tokenizer.json")
    config = json.loads((source / "config.json").read_text("utf-8"))
    wanted = ("n_layer", "n_head", "n_embd", "n_positions", "vocab_size", "layer_norm_epsilon", "activation_function")
    config = {name: config[name] for name in wanted}
    if student is None:
        shutil.copy(source / "model.safetensors", folder / "model.safetensors")
        layout = PUBLISHED
    else:
        tensors = {k.removeprefix("transformer."): v for k, v in load_file(source / "model.safetensors").items()}
        tensors, layout = vary_tensors(tensors, config, student)
        save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    (folder / "LAYOUT.txt").write_text(layout, encoding="utf-8")


def vary_tensors(
    tensors: dict[str, np.ndarray], config: dict[str, Any], student: str
) -> tuple[dict[str, np.ndarray], str]:
    """(the tensors as this student finds them, what LAYOUT.txt says of them)."""
    if not student.strip():
        raise InputError("--student needs a name")
    seed = int.from_bytes(hashlib.sha256(student.strip().encode()).digest()[:8], "little")
    rng = np.random.default_rng(seed)
    names, by_head, turned, wider = (
        NAMES[rng.integers(3)],
        int(rng.integers(2)),
        int(rng.integers(2)),
        rng.choice(WIDER),
    )
    wte, wpe, layer, ln_1, attention, out, ln_2, up, down, ln_f = names
    width, heads = config["n_embd"], config["n_head"]
    channels = rng.permutation(width)  # of the residual stream: every tensor that touches it follows
    varied = {f"{wte}.weight": tensors["wte.weight"][:, channels], f"{wpe}.weight": tensors["wpe.weight"][:, channels]}

    def put_norm(name: str, old: str) -> None:
        for part in ("weight", "bias"):
            varied[f"{name}.{part}"] = tensors[f"{old}.{part}"][channels]

    def put_linear(name: str, weight: np.ndarray, bias: np.ndarray) -> None:
        varied[f"{name}.weight"], varied[f"{name}.bias"] = weight.T if turned else weight, bias

    put_norm(ln_f, "ln_f")
    for i in range(config["n_layer"]):
        h, prefix = f"h.{i}", layer.format(i)
        put_norm(f"{prefix}.{ln_1}", f"{h}.ln_1")
        put_norm(f"{prefix}.{ln_2}", f"{h}.ln_2")
        weight, bias = tensors[f"{h}.attn.c_attn.weight"][channels], tensors[f"{h}.attn.c_attn.bias"]
        if by_head:
            order = np.arange(3 * width).reshape(3, heads, -1).swapaxes(0, 1).ravel()
            weight, bias = weight[:, order], bias[order]
        put_linear(f"{prefix}.{attention}", weight, bias)
        put_linear(f"{prefix}.{out}", tensors[f"{h}.attn.c_proj.weight"][:, channels],
                   tensors[f"{h}.attn.c_proj.bias"][channels])  # fmt: skip
        inner = tensors[f"{h}.mlp.c_fc.bias"].size
        order = rng.permutation(inner + wider)  # the last ones are new: their outputs go nowhere
        grow = np.concatenate([tensors[f"{h}.mlp.c_fc.weight"][channels],
                               rng.normal(0, 0.05, (width, wider)).astype(np.float16)], axis=1)  # fmt: skip
        grow_bias = np.concatenate([tensors[f"{h}.mlp.c_fc.bias"], np.zeros(wider, np.float16)])
        shrink = np.concatenate([tensors[f"{h}.mlp.c_proj.weight"][:, channels], np.zeros((wider, width), np.float16)])
        put_linear(f"{prefix}.{up}", grow[:, order], grow_bias[order])
        put_linear(f"{prefix}.{down}", shrink[order], tensors[f"{h}.mlp.c_proj.bias"][channels])
    config["n_inner"] = int(config["n_embd"] * 4 + wider)
    varied = {name: np.ascontiguousarray(tensor) for name, tensor in varied.items()}
    return varied, describe_layout(names, QKV[by_head], AXES[turned])


def describe_layout(names: tuple[str, ...], qkv: str, axes: str) -> str:
    wte, wpe, layer, ln_1, attention, out, ln_2, up, down, ln_f = names
    at = layer.format("I")
    return f"""The tensors of model.safetensors, of a model built like GPT-2. I counts layers from 0.

{wte}.weight   the embedding (V, D); it is the output matrix as well
{wpe}.weight   the embedding of positions (N, D)
{at}.{ln_1}.weight, .bias   the norm before attention
{at}.{attention}.weight, .bias   queries, keys and values in one matrix: {qkv}
{at}.{out}.weight, .bias   what mixes the heads' results
{at}.{ln_2}.weight, .bias   the norm before the feed-forward
{at}.{up}.weight, .bias   the feed-forward's first matrix
{at}.{down}.weight, .bias   its second matrix
{ln_f}.weight, .bias   the last norm

Matrices are stored as {axes}. A layer is x = x + attention(norm(x)); x = x + feed_forward(norm(x)).
A score of attention is q . k / sqrt(K), K numbers in a head; no token sees later ones.
Between the feed-forward's matrices is GELU: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))).
"""


PUBLISHED = describe_layout(
    ("transformer.wte", "transformer.wpe", "transformer.h.{}", "ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc",
     "mlp.c_proj", "transformer.ln_f"), QKV[0], AXES[0],
)  # fmt: skip
