"""The ops once more, as loops in float64 straight from the equations of ops.py: slow, and hard to get wrong."""

import math

import numpy as np


def embed(ids, pos, wte, wpe, scale=1.0):
    return np.array(
        [
            [scale * float(a) + float(b) for a, b in zip(wte[i], wpe[p], strict=True)]
            for i, p in zip(ids, pos, strict=True)
        ]
    )


def linear(x, matrix_io):
    x, w = np.asarray(x, np.float64), np.asarray(matrix_io, np.float64)
    return np.array([[math.fsum(x[r] * w[:, o]) for o in range(w.shape[1])] for r in range(len(x))])


def activation(f, name):
    f = float(f)
    if name == "gelu":
        return 0.5 * f * (1 + math.erf(f / math.sqrt(2)))
    if name in ("gelu_new", "gelu_fast", "gelu_pytorch_tanh"):
        return 0.5 * f * (1 + math.tanh(math.sqrt(2 / math.pi) * (f + 0.044715 * f**3)))
    if name == "relu":
        return max(f, 0.0)
    if name == "quick_gelu":
        return f / (1 + math.exp(-1.702 * f)) if f > -400 else 0.0
    if name in ("silu", "swish"):
        return f / (1 + math.exp(-f)) if f > -700 else 0.0
    if name in ("gelu_python", "gelu_10"):
        return min(activation(f, "gelu"), 10.0 if name == "gelu_10" else math.inf)
    if name == "mish":
        return f * math.tanh(math.log1p(math.exp(f))) if -700 < f < 700 else max(f, 0.0)
    if name == "relu2":
        return max(f, 0.0) ** 2
    if name == "laplace":
        return 0.5 * (1 + math.erf((f - 0.707107) / (0.282095 * math.sqrt(2))))
    return f if name == "linear" else math.tanh(f)


def log_softmax(logits):
    rows = []
    for row in np.asarray(logits, np.float64):
        top = max(row)
        rows.append(row - top - math.log(math.fsum(math.exp(v - top) for v in row)))
    return np.array(rows)


def token_logprobs(logits, tokens):
    rows = []
    for row, token in zip(np.asarray(logits, np.float64), tokens, strict=True):
        top = max(row)
        rows.append(row[token] - top - math.log(math.fsum(math.exp(v - top) for v in row)))
    return np.array(rows)


def banned(history, n):
    """The tokens that would complete an n-gram of `history` once more, by looking at every position."""
    tail = list(history[len(history) - (n - 1) :]) if n > 1 else []
    if len(history) < n - 1:
        return set()
    return {
        int(history[i + n - 1]) for i in range(len(history) - n + 1) if list(history[i : i + n - 1]) == tail
    }  # fmt: skip
