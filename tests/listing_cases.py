"""What tests of the paper's listings share: our weights as the listings take them, and how far answers may differ."""

from __future__ import annotations

import numpy as np

from minidecode.reference.common.softmax import softmax

EPS = 2.0**-53  # the relative error of one rounding in float64


def outputs_first(weight):
    """(outputs, inputs) of a Weight; where it has a bias, a column more, for an input that is always 1."""
    data = weight.data if weight.layout == "oi" else weight.data.T
    return data if weight.bias is None else np.concatenate([data, weight.bias[:, None]], axis=1)


def with_one(x, weight):
    """The input that goes with `outputs_first`."""
    return x if weight.bias is None else np.concatenate([x, np.ones_like(x[..., :1])], axis=-1)


def projections(heads, q, kv, out):
    """(P_q, P_k, P_v, P_o) as the multi-head listings take them: each key/value head repeated for its query heads.

    q: (H*K, d), kv: (G*(K+U), d), out: (d, H*U). The scale is folded into P_q, as the note to section 2.2 has it.
    """
    H, G, K, U = heads.H, heads.G, heads.K, heads.U
    P_q = heads.scale * q.reshape(H, K, -1).transpose(0, 2, 1)
    P_k = kv[: G * K].reshape(G, K, -1).transpose(0, 2, 1)
    P_v = kv[G * K :].reshape(G, U, -1).transpose(0, 2, 1)
    return P_q, np.repeat(P_k, H // G, axis=0), np.repeat(P_v, H // G, axis=0), out.reshape(-1, H, U).transpose(1, 0, 2)


def projections_of(heads, qkv, out):
    """The same of our Weights, q, k and v in one."""
    rows = outputs_first(qkv)
    return projections(heads, rows[: heads.H * heads.K], rows[heads.H * heads.K :], outputs_first(out))


def may_differ(X, M, mask, P_q, P_k, P_v, P_o):
    """How far two float64 computations of multihead_attention_batched may lie apart at the worst, [b, n, d].

    A sum of n products is off by at most n roundings of the sum of their sizes, in whatever order it goes. A logit
    that is off by e makes its weight off by a factor of exp(e), and so the sum that the weight is divided by.
    """
    d, k, v, m = X.shape[-1], P_q.shape[-1], P_o.shape[-1], M.shape[1]
    weights = softmax(_logits(X, M, P_q, P_k) + mask)
    sizes = np.where(np.isneginf(mask), 0, _logits(*map(np.abs, (X, M, P_q, P_k))))
    largest = sizes.max(axis=-1, keepdims=True)  # no logit is larger
    of_logits = EPS * (2 * (d + 3) + k + 3) * largest  # two sums over d, a bias and the scale; a sum over k
    of_weights = 2 * of_logits + EPS * (4 * largest + m + 8)  # the largest taken off, exp, a sum over m, a division
    summed = np.einsum("bhnm,bmd,hdv->bhnv", weights, np.abs(M), np.abs(P_v))
    of_sums = (of_weights + EPS * (m + d + 4)) * summed
    Y = np.einsum("bhnv,hdv->bnd", of_sums + EPS * (len(P_o) * v + 2) * summed, np.abs(P_o))
    return 2.02 * Y  # for two computations, and what is of second order


def _logits(X, M, P_q, P_k):
    return np.einsum("bnd,hdk,bme,hek->bhnm", X, P_q, M, P_k, optimize=True)
