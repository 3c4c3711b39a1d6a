"""The listings of the multi-query paper against the ops that models run, in float64, within computed bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from listing_cases import EPS, may_differ, projections

from minidecode import reference
from minidecode.ops import Heads, Weight
from minidecode.plan import functions_of_backend
from minidecode.reference.listings import (
    dot_product_attention,
    fold_scale,
    multihead_attention,
    multihead_attention_batched,
    multihead_self_attention_incremental,
    multiquery_attention_batched,
    multiquery_self_attention_incremental,
)

OPS = functions_of_backend(reference)
seeds, few, widths = st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 7)
heads = st.builds(
    lambda G, per_group, K, U, scale: Heads(G * per_group, G, K, U, scale),
    few, few, widths, widths, st.sampled_from([1.0, 0.125, 0.37]),
)  # fmt: skip
NOTHING_HIDDEN = np.zeros((1, 1, 1, 1))


class Case:
    """Inputs and the weights of one attention layer; the first row of the first sequence is an outlier."""

    def __init__(self, seed, b, n, m, d, h: Heads):
        rng = np.random.default_rng(seed)
        self.h, self.X, self.M = h, rng.standard_normal((b, n, d)), rng.standard_normal((b, m, d))
        self.X[0, 0] *= 30
        self.M[0, 0] *= 30
        self.q = rng.standard_normal((h.H * h.K, d))
        self.kv = rng.standard_normal((h.G * (h.K + h.U), d))
        self.out = rng.standard_normal((d, h.H * h.U))

    @property
    def multi_head(self):
        """Projections with a key/value head for each query head."""
        return projections(self.h, self.q, self.kv, self.out)

    @property
    def multi_query(self):
        """The same with the one key/value head that there is."""
        assert self.h.G == 1
        P_q, P_k, P_v, P_o = self.multi_head
        return P_q, P_k[0], P_v[0], P_o

    def cut_heads(self, X, M):
        """q, k and v of rows, as a model cuts them."""
        q_RX = OPS["linear"](X.reshape(-1, X.shape[-1]), Weight(self.q, layout="oi"))
        kv_RX = OPS["linear"](M.reshape(-1, M.shape[-1]), Weight(self.kv, layout="oi"))
        q_RHK = OPS["split_heads"](q_RX, None, replace(self.h, G=0))[0]
        return q_RHK, *OPS["split_heads"](kv_RX, None, replace(self.h, H=0))[1:]

    def summed(self, a_RX, shape):
        return OPS["linear"](a_RX, Weight(self.out, layout="oi")).reshape(shape)

    def within(self, X, M, causal, window=None):
        """Ours, over rows without padding."""
        q_RHK, k_RGK, v_RGU = self.cut_heads(X, M)
        q_offsets_X, k_offsets_X = (np.arange(len(a) + 1) * a.shape[1] for a in (X, M))
        a_RX = OPS["attend_prefill"](q_RHK, k_RGK, v_RGU, q_offsets_X, k_offsets_X, self.h.scale, causal, window)
        return self.summed(a_RX, X.shape)

    def listings(self, X, M, mask):
        """What the batched listings say: the multi-head one, and where there is one key/value head the other too."""
        mask = np.broadcast_to(mask, (len(X), self.h.H, X.shape[1], M.shape[1]))
        answers = [multihead_attention_batched(X, M, mask, *self.multi_head)]
        if self.h.G == 1:
            answers.append(multiquery_attention_batched(X, M, mask, *self.multi_query))
        return answers, may_differ(X, M, mask, *self.multi_head)


def causal_mask(n, window=None):
    back = np.arange(n)[:, None] - np.arange(n)
    return np.where((back < 0) | (back >= (window or n)), -np.inf, 0)


def agree(ours, listings):
    answers, bound = listings
    return all((np.abs(ours - answer) <= bound).all() for answer in answers)


# ---- the listings equal ours -----------------------------------------------------------------------------------------


@given(seeds, widths, widths, widths, st.sampled_from([1.0, 30.0]))
def test_one_query_and_one_head(seed, m, k, v, size):
    """Section 2.1 is `attend` of one row, one head and no scale."""
    rng = np.random.default_rng(seed)
    q, K, V = rng.standard_normal(k) * size, rng.standard_normal((m, k)), rng.standard_normal((m, v))
    ours = OPS["attend"](q[None, None], K[None, None], V[None, None], np.zeros(1, int), np.full(1, m), 1.0)[0]
    logits_off = EPS * k * (np.abs(K) @ np.abs(q)).max()
    weights_off = 2 * logits_off + EPS * (4 * (np.abs(K) @ np.abs(q)).max() + m + 8)
    weights = np.exp(K @ q - (K @ q).max())
    bound = 2.02 * (weights_off + EPS * (m + 2)) * (weights / weights.sum()) @ np.abs(V)
    assert (np.abs(dot_product_attention(q, K, V) - ours) <= bound).all()


@given(seeds, widths, widths, heads)
def test_one_query_and_several_heads(seed, m, d, h):
    """Section 2.2, and that 2.3 with one query of one sequence is the same."""
    case = Case(seed, 1, 1, m, d, h)
    y = multihead_attention(case.X[0, 0], case.M[0], *case.multi_head)
    assert agree(y, case.listings(case.X, case.M, NOTHING_HIDDEN))
    assert agree(case.within(case.X, case.M, causal=False), ([y], case.listings(case.X, case.M, NOTHING_HIDDEN)[1]))


@given(seeds, few, widths, widths, widths, heads)
def test_cross_attention(seed, b, n, m, d, h):
    """A target's rows against the whole of its source (section 4.1): G = H, G = 1 and all between."""
    case = Case(seed, b, n, m, d, h)
    assert agree(case.within(case.X, case.M, causal=False), case.listings(case.X, case.M, NOTHING_HIDDEN))


@given(seeds, few, widths, widths, heads)
def test_self_attention_of_an_encoder(seed, b, n, d, h):
    case = Case(seed, b, n, n, d, h)
    assert agree(case.within(case.X, case.X, causal=False), case.listings(case.X, case.X, NOTHING_HIDDEN))


@given(seeds, few, widths, widths, heads, st.none() | widths)
def test_self_attention_of_a_decoder(seed, b, n, d, h, window):
    """The mask of section 2.3, and with a window that of the local models of section 4.1."""
    case = Case(seed, b, n, n, d, h)
    ours = case.within(case.X, case.X, causal=True, window=window)
    assert agree(ours, case.listings(case.X, case.X, causal_mask(n, window)))


@given(seeds, few, widths, widths, heads)
def test_padding_is_a_mask(seed, b, m, d, h):
    """`attend`, a row for each sequence, over positions from begin[r] to end[r]; the others hold other numbers."""
    case = Case(seed, b, 1, m, d, h)
    rng = np.random.default_rng(seed)
    begin_R = rng.integers(m, size=b)
    end_R = rng.integers(begin_R, m) + 1
    q_RHK, k_RGK, v_RGU = case.cut_heads(case.X, case.M)
    k_RGMK, v_RGMU = (a.reshape(b, m, h.G, -1).transpose(0, 2, 1, 3).copy() for a in (k_RGK, v_RGU))
    place = np.arange(m)
    hidden = (place < begin_R[:, None]) | (place >= end_R[:, None])
    for cache in (k_RGMK, v_RGMU):
        cache.transpose(0, 2, 1, 3)[hidden] = 1e4
    a_RX = OPS["attend"](q_RHK, k_RGMK, v_RGMU, begin_R, end_R, h.scale)
    mask = np.where(hidden, -np.inf, 0)[:, None, None]
    assert agree(case.summed(a_RX, case.X.shape), case.listings(case.X, case.M, mask))


# ---- the listings equal each other -----------------------------------------------------------------------------------


@given(seeds, few, st.integers(2, 7), widths, heads, st.data())
def test_the_incremental_listings_equal_the_batched_row_by_row(seed, b, n, d, h, data):
    """From an empty memory, or from one that the batched listing's projections have filled."""
    case = Case(seed, b, n, n, d, h)
    begin = data.draw(st.integers(0, n - 1))
    X, (answers, bound) = case.X, case.listings(case.X, case.X, causal_mask(n))
    P_q, P_k, P_v, P_o = case.multi_head
    keys, values = np.einsum("bnd,hdk->bhnk", X, P_k), np.einsum("bnd,hdv->bhnv", X, P_v)
    K, V = keys[:, :, :begin], values[:, :, :begin]
    for t in range(begin, n):
        y, K, V = multihead_self_attention_incremental(X[:, t], K, V, P_q, P_k, P_v, P_o)
        assert (np.abs(y - answers[0][:, t]) <= bound[:, t]).all()
    near(K, keys, X, P_k)
    near(V, values, X, P_v)
    if h.G > 1:
        return
    _, P_k, P_v, _ = case.multi_query
    K, V = keys[:, 0, :begin], values[:, 0, :begin]
    for t in range(begin, n):
        y, K, V = multiquery_self_attention_incremental(X[:, t], K, V, P_q, P_k, P_v, P_o)
        assert (np.abs(y - answers[1][:, t]) <= bound[:, t]).all()
    near(K[:, None], keys[:, :1], X, P_k[None])
    near(V[:, None], values[:, :1], X, P_v[None])


def near(found, expected, X, P):
    """Two sums of d products each."""
    assert found.shape == expected.shape
    bound = 2 * EPS * X.shape[-1] * np.einsum("bnd,hdk->bhnk", np.abs(X), np.abs(P))
    assert (np.abs(found - expected) <= bound).all()


def test_the_errata_on_axes():
    """As printed, a new multi-query key fits no cache, or widens it; here it is one position more."""
    rng = np.random.default_rng(0)
    new = np.expand_dims(rng.standard_normal((2, 3)), axis=2)
    with pytest.raises(ValueError, match="dimension"):
        np.concatenate([np.zeros((2, 5, 3)), new], axis=2)
    assert np.concatenate([np.zeros((2, 3, 3)), new], axis=2).shape == (2, 3, 4)
    x, P_q, P = rng.standard_normal((2, 7)), rng.standard_normal((4, 7, 3)), rng.standard_normal((7, 3))
    _, K, V = multiquery_self_attention_incremental(x, np.zeros((2, 5, 3)), np.zeros((2, 5, 3)), P_q, P, P, P_q)
    assert K.shape == V.shape == (2, 6, 3)


# ---- the bounds mean something ---------------------------------------------------------------------------------------

MISTAKES = {
    "the scale is off by a millionth": lambda h, P_q, P_k, P_v, P_o: (P_q * (1 + 1e-6), P_k, P_v, P_o),
    "no scale": lambda h, P_q, P_k, P_v, P_o: (P_q / h.scale, P_k, P_v, P_o),
    "the keys of the next head": lambda h, P_q, P_k, P_v, P_o: (P_q, np.roll(P_k, 1, axis=0), P_v, P_o),
    "the values of the next head": lambda h, P_q, P_k, P_v, P_o: (P_q, P_k, np.roll(P_v, 1, axis=0), P_o),
    "groups dealt out in turn": lambda h, P_q, P_k, P_v, P_o: (P_q, *(dealt(P, h.G) for P in (P_k, P_v)), P_o),
    "heads summed in another order": lambda h, P_q, P_k, P_v, P_o: (P_q, P_k, P_v, P_o[::-1]),
}


def dealt(P, G):
    """Key/value head h % G for query head h, where it should be h // (H/G)."""
    return P[np.arange(len(P)) % G * (len(P) // G)]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_breaks_the_bound(mistake):
    case = Case(3, 2, 5, 5, 16, Heads(4, 2, 4, 6, 0.37))
    ours, mask = case.within(case.X, case.X, causal=True), np.broadcast_to(causal_mask(5), (2, 4, 5, 5))
    right = case.multi_head
    assert agree(ours, case.listings(case.X, case.X, mask))
    wrong = multihead_attention_batched(case.X, case.X, mask, *MISTAKES[mistake](case.h, *right))
    assert (np.abs(ours - wrong) > may_differ(case.X, case.X, mask, *right)).any()


def test_a_position_hidden_or_shown_by_mistake_breaks_the_bound():
    case = Case(4, 1, 4, 4, 16, Heads(4, 1, 4, 6, 0.37))
    ours = case.within(case.X, case.X, causal=True)
    for row, position in [(3, 1), (1, 2)]:
        mask = causal_mask(4)
        mask[row, position] = 0 if np.isneginf(mask[row, position]) else -np.inf
        _, bound = case.listings(case.X, case.X, causal_mask(4))
        for answer in case.listings(case.X, case.X, mask)[0]:
            assert (np.abs(ours - answer) > bound)[0, row].any()


# ---- the scale in the queries ----------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(seeds, few, widths, widths, heads, st.booleans(), st.sampled_from(["io", "oi"]))
def test_a_folded_scale_gives_the_same_attention(seed, b, n, d, h, with_bias, layout):
    """Bit by bit where the scale is a power of two, else within the bound."""
    case = Case(seed, b, n, n, d, h)
    rows = np.concatenate([case.q, case.kv])
    bias = np.random.default_rng(seed).standard_normal(len(rows)) if with_bias else None
    weight = Weight(rows if layout == "oi" else np.ascontiguousarray(rows.T), bias, layout=layout)
    before = weight.data.copy(), bias if bias is None else bias.copy()

    def layer(weight, h):
        cut = OPS["split_heads"](OPS["linear"](case.X.reshape(-1, d), weight), weight.bias, h)
        offsets_X = np.arange(b + 1) * n
        a_RX = OPS["attend_prefill"](*cut, offsets_X, offsets_X, h.scale, True)
        return case.summed(a_RX, case.X.shape)

    folded, unscaled = fold_scale(weight, h)
    assert unscaled == replace(h, scale=1.0)
    expected, found = layer(weight, h), layer(folded, unscaled)
    if h.scale in (1.0, 0.125):
        assert np.array_equal(found, expected)
    X = np.concatenate([case.X, np.ones((b, n, 1))], axis=2)
    full = np.concatenate([rows, np.zeros((len(rows), 1)) if bias is None else bias[:, None]], axis=1)
    P = projections(h, full[: h.H * h.K], full[h.H * h.K :], case.out)
    mask = np.broadcast_to(causal_mask(n), (b, h.H, n, n))
    assert (np.abs(found - expected) <= may_differ(X, X, mask, *P)).all()
    assert np.array_equal(weight.data, before[0]), "the model's own weight is not changed"
    assert bias is None or np.array_equal(bias, before[1])


def test_the_fold_scales_the_queries_alone():
    case = Case(5, 1, 4, 4, 16, Heads(4, 2, 4, 6, 0.37))
    weight = Weight(np.concatenate([case.q, case.kv]), layout="oi")
    folded, unscaled = fold_scale(weight, case.h)
    assert np.allclose(folded.data[:16], 0.37 * case.q, rtol=1e-15) and np.array_equal(folded.data[16:], case.kv)
    assert unscaled.scale == 1.0
