"""UniLM in float64, written from its description: all rows of a source and a target in one masked forward pass."""

from __future__ import annotations

import math

import numpy as np

erf = np.vectorize(math.erf)
ACTIVATIONS = {
    "gelu": lambda x: x * 0.5 * (1 + erf(x / np.sqrt(2))),
    "gelu_new": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


def rows_of(fields: dict, source: list[int], target: list[int]):
    """(ids, positions, types, sees, predicts): of all rows of one sentence, as in training.

    target: the tokens so far, with the first one, which only pos_shift reads. sees[i, j]: whether row i attends to j.
    predicts: the rows that say the next token of each token of the target.

    A source sees itself, a target its source and what is before it. Without pos_shift, behind each token stands [MASK]
    at the next position, which sees what is before that position, and which no other row sees.
    """
    n, kinds = len(source), (fields.get("source_type_id", 0), fields.get("target_type_id", 1))
    new = target if fields.get("pos_shift") else target[1:]
    ids, positions = [*source, *new], list(range(n + len(new)))
    types = [kinds[0]] * n + [kinds[1]] * len(new)
    M = len(ids)
    sees = np.tril(np.ones((M, M), bool))
    sees[:n, :n] = True
    if fields.get("pos_shift"):
        return ids, positions, types, sees, list(range(n, M))
    masks = list(range(n, M + 1))  # their positions
    both = np.zeros((M + len(masks), M + len(masks)), bool)
    both[:M, :M] = sees
    for i, position in enumerate(masks):
        both[M + i, :position] = True
        both[M + i, M + i] = True
    ids += [fields.get("mask_token_id", 103)] * len(masks)
    return ids, positions + masks, types + [kinds[1]] * len(masks), both, list(range(M, M + len(masks)))


def logits(fields: dict, tensors: dict[str, np.ndarray], source: list[int], target: list[int]) -> np.ndarray:
    """The logits (T, V) behind each of the T tokens of a target."""
    w = {name.removeprefix("bert."): np.asarray(tensor, np.float64) for name, tensor in tensors.items()}
    act, H = ACTIVATIONS[fields.get("hidden_act", "gelu")], fields["num_attention_heads"]
    ids, positions, types, sees, predicts = rows_of(fields, source, target)

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x, name):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]

    table = {kind: w[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type")}
    x = norm(table["word"][ids] + table["position"][positions] + table["token_type"][types], "embeddings.LayerNorm")
    for i in range(fields["num_hidden_layers"]):
        layer = f"encoder.layer.{i}"
        q, k, v = (
            linear(x, f"{layer}.attention.self.{name}").reshape(len(ids), H, -1).swapaxes(0, 1)
            for name in ("query", "key", "value")
        )
        scores = np.where(sees, q @ k.swapaxes(1, 2) / np.sqrt(q.shape[2]), -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        a = (weights / weights.sum(-1, keepdims=True)) @ v
        a = linear(a.swapaxes(0, 1).reshape(len(ids), -1), f"{layer}.attention.output.dense")
        x = norm(x + a, f"{layer}.attention.output.LayerNorm")
        f = linear(act(linear(x, f"{layer}.intermediate.dense")), f"{layer}.output.dense")
        x = norm(x + f, f"{layer}.output.LayerNorm")
    head = "cls.predictions"
    h = norm(act(linear(x[predicts], f"{head}.transform.dense")), f"{head}.transform.LayerNorm")
    return h @ table["word"].T + w[f"{head}.bias"]
