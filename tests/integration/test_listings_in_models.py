"""Whole attention layers of GPT-2 and BART, through the caches, against the listings of the multi-query paper.

Encoder self-attention, decoder self-attention and cross attention (section 4.1), each layer with its biases and its
scale, prompts of several lengths, beams that part and are reordered.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from listing_cases import may_differ, outputs_first, projections, projections_of, with_one
from test_attention_settings import logits, make

from minidecode import reference
from minidecode.cache.cross import weight_of_layer
from minidecode.cache.no_cache import NoCache
from minidecode.cache.source import Source
from minidecode.model import Model
from minidecode.plan import CACHES, Plan, functions_of_backend
from minidecode.reference.listings import (
    fold_scale,
    multihead_attention_batched,
    multihead_self_attention_incremental,
    multiquery_attention_batched,
    multiquery_self_attention_incremental,
)

OPS = SimpleNamespace(**functions_of_backend(reference))
KV_CACHES = [name for name, cache in CACHES.items() if cache.keeps]
LENGTHS, BEAMS, STEPS = [4, 2], 3, 5
PARENTS = {2: [1, 1, 0, 3, 5, 5]}  # before step 2: row r goes on from that row, a beam of the same sentence
SETTINGS = [
    {}, {"num_key_value_heads": 1}, {"num_key_value_heads": 2}, {"num_key_value_heads": 1, "key_width": 5},
    {"num_key_value_heads": 2, "key_width": 2, "value_width": 7},
]  # fmt: skip


def offsets(lengths):
    return np.concatenate([[0], np.cumsum(lengths)])


def rows(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def batched(heads, X, M, mask, P):
    """The multi-query listing where there is one key/value head, else the multi-head one, and the bound."""
    mask = np.broadcast_to(mask, (len(X), heads.H, X.shape[1], M.shape[1]))
    P_q, P_k, P_v, P_o = P
    if heads.G == 1:
        answer = multiquery_attention_batched(X, M, mask, P_q, P_k[0], P_v[0], P_o)
    else:
        answer = multihead_attention_batched(X, M, mask, *P)
    return answer, may_differ(X, M, mask, *P)


def causal(n):
    return np.where(np.tri(n, dtype=bool), 0, -np.inf)


def split(rows_RD, lengths):
    """One sequence after the other, as batches of one."""
    return [part[None] for part in np.split(rows_RD, np.cumsum(lengths)[:-1])]


def assert_within(ours, answer, bound):
    assert ours.shape == answer.shape
    assert (np.abs(ours - answer) <= bound).all()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_encoder_self_attention(settings):
    block = make("bart", **settings).weights.encoder.blocks[1]
    x_RD = rows(0, sum(LENGTHS), 12)
    cache = NoCache(block, offsets(LENGTHS), causal=False)
    a_RX = cache.attend(OPS, cache.append(OPS, OPS.linear(x_RD, block.qkv), x_RD))
    P = projections_of(block.heads, block.qkv, replace(block.out, bias=None))
    for X, ours in zip(split(x_RD, LENGTHS), split(OPS.linear(a_RX, block.out), LENGTHS), strict=True):
        X = with_one(X, block.qkv)
        assert_within(ours, *batched(block.heads, X, X, np.zeros(1), P))


class Steps:
    """The incremental listing for each row of a decode step: its cache, and what it has read so far."""

    def __init__(self, heads, P, prompts):
        self.heads, (self.P_q, self.P_k, self.P_v, self.P_o) = heads, P
        if heads.G == 1:
            self.listing, self.keys, self.values = multiquery_self_attention_incremental, self.P_k[0], self.P_v[0]
            equation = "bnd,dk->bnk"
        else:
            self.listing, self.keys, self.values = multihead_self_attention_incremental, self.P_k, self.P_v
            equation = "bnd,hdk->bhnk"
        self.read = [X for X in prompts for _ in range(BEAMS)]
        self.K = [np.einsum(equation, X, self.keys) for X in self.read]
        self.V = [np.einsum(equation, X, self.values) for X in self.read]

    def follow(self, parents):
        for name in ("read", "K", "V"):
            setattr(self, name, [getattr(self, name)[r] for r in parents])

    def step(self, r, x):
        """(y, how far ours may differ from it) for one more position of row r."""
        y, self.K[r], self.V[r] = self.listing(x, self.K[r], self.V[r], self.P_q, self.keys, self.values, self.P_o)
        X = self.read[r] = np.concatenate([self.read[r], x[None]], axis=1)
        mask = np.zeros((1, self.heads.H, 1, X.shape[1]))
        return y[0], may_differ(X[:, -1:], X, mask, self.P_q, self.P_k, self.P_v, self.P_o)[0, 0]


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("cache_name", KV_CACHES)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_decoder_self_attention(kind, cache_name, settings):
    """The prompt by the batched listing with a causal mask; each step by the incremental one."""
    window = {"attention_window": 24} if cache_name == "rolling" else {}  # as wide as the context: it hides nothing
    block = make(kind, **window, **settings).weights.blocks[1]
    heads, P = block.heads, projections_of(block.heads, block.qkv, replace(block.out, bias=None))
    cache = CACHES[cache_name](block, offsets(LENGTHS))

    def layer(x_RD):
        q_RHK = cache.append(OPS, OPS.linear(x_RD, block.qkv), x_RD)
        return OPS.linear(cache.attend(OPS, q_RHK), block.out)

    x_RD = rows(1, sum(LENGTHS), 12)
    prompts = [with_one(X, block.qkv) for X in split(x_RD, LENGTHS)]
    for X, ours in zip(prompts, split(layer(x_RD), LENGTHS), strict=True):
        assert_within(ours, *batched(heads, X, X, causal(X.shape[1]), P))

    cache.expand(OPS, BEAMS, STEPS)
    steps = Steps(heads, P, prompts)
    for t in range(STEPS):
        if t in PARENTS:
            cache.reorder(OPS, np.array(PARENTS[t]))
            steps.follow(PARENTS[t])
        x_RD = rows(2 + t, len(LENGTHS) * BEAMS, 12)
        for r, ours in enumerate(layer(x_RD)):
            assert_within(ours, *steps.step(r, with_one(x_RD[r : r + 1], block.qkv)))


@pytest.mark.parametrize("cache_name", KV_CACHES)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_cross_attention(cache_name, settings):
    """Rows of a target against the whole of their source: at the prefill, and then a row for each beam."""
    weights = make("bart", **settings).weights
    block, cross_kv = weights.blocks[1], weight_of_layer(weights.cross_kv, 1, len(weights.blocks))
    heads, targets = block.cross_heads, [2, 1]
    q, kv = outputs_first(block.cross_q), outputs_first(cross_kv)
    P = projections(heads, q, kv, block.cross_out.data)
    encoded_RD = rows(3, sum(LENGTHS), 12)
    source = Source(encoded_RD, offsets(LENGTHS))
    kind = Plan(cache=cache_name).cache_kind(has_encoder=True)
    cache = kind.cross.of_layers(OPS, weights, source, offsets(targets))[1]
    sources = [with_one(M, cross_kv) for M in split(encoded_RD, LENGTHS)]
    for step, lengths in [(0, targets), (1, [BEAMS] * 2), (2, [BEAMS] * 2)]:
        if step == 1:
            cache.expand(OPS, BEAMS)
        x_RD = rows(4 + step, sum(lengths), 12)
        a_RX = cache.attend(OPS, OPS.linear(x_RD, block.cross_q))
        answers = split(OPS.linear(a_RX, block.cross_out), lengths)
        for X, M, ours in zip(split(x_RD, lengths), sources, answers, strict=True):
            assert_within(ours, *batched(heads, with_one(X, block.cross_q), M, np.zeros(1), P))


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize(("settings", "power_of_two"), [({"key_width": 4}, True), ({"num_key_value_heads": 1}, False)])
def test_a_whole_model_with_its_scales_folded(kind, settings, power_of_two):
    model = make(kind, **settings)
    folded: Model = make(kind, model.tensors, **settings)
    folded.weights = with_folded_scales(folded.weights)
    assert all(block.heads.scale == 1 for block in folded.weights.blocks)
    for a, b in zip(logits(folded), logits(model), strict=True):
        assert np.array_equal(a, b) if power_of_two else np.allclose(a, b, rtol=1e-12, atol=1e-12)
    assert all(model.generate(input_ids=[[3, 9, 27]], plan=f"cache={m}", max_new_tokens=9).token_ids[0].tolist()
               == folded.generate(input_ids=[[3, 9, 27]], plan=Plan(cache=m), max_new_tokens=9).token_ids[0].tolist()
               for m in CACHES if m != "rolling")  # fmt: skip


def with_folded_scales(w):
    """The weights of a model with `fold_scale` on every attention."""

    def block(b):
        qkv, heads = fold_scale(b.qkv, b.heads)
        b = replace(b, qkv=qkv, heads=heads)
        if hasattr(b, "cross_q"):
            cross_q, cross_heads = fold_scale(b.cross_q, b.cross_heads)
            b = replace(b, cross_q=cross_q, cross_heads=cross_heads)
        return b

    if w.encoder is None:
        return replace(w, blocks=tuple(map(block, w.blocks)))
    stacks = {side: replace(getattr(w, side), blocks=tuple(map(block, getattr(w, side).blocks)))
              for side in ("encoder", "decoder")}  # fmt: skip
    return replace(w, **stacks)
