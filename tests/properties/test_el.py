"""EL-attention is multi-head attention: what it leaves out changes nothing, and what it may not leave out does."""

import dataclasses

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from minidecode import dims, ops
from minidecode.cache.el import key_value_weights
from minidecode.conformance.rows import el as el_row
from minidecode.conformance.rows import el_split as split_row
from minidecode.device.low_precision import dequantize_weight, quantize_weight
from minidecode.ops import Heads, Weight
from minidecode.reference import el, el_split
from minidecode.reference.grouped import attend
from minidecode.reference.heads import split_heads
from minidecode.reference.linear import linear
from minidecode.reference.shared import attend_shared
from minidecode.reference.split import attend_split

seeds = st.integers(0, 2**32 - 1)
EL, EL_SPLIT = (dims.with_checked_shapes(f, ops.RETURNS[f.__name__]) for f in (el.attend_el, el_split.attend_el_split))


def wide(arguments):
    """In float64, where both sides of an equation agree to the last few digits."""
    return [a.astype(np.float64) if getattr(a, "dtype", None) in (np.float32, np.float16) else a for a in arguments]


def agree(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * max(1, np.abs(expected).max()))


@settings(max_examples=60)
@given(seeds, el_row.draw_sizes())
@example(0, el_row.planted_sizes()[1] | dict(W=5, key_bias=100.0))
def test_el_is_multi_head_attention(seed, sizes):
    """Over keys and values that the same weights make of the same hidden states (Appendix B), for G from 1 to H."""
    q, h, begin, w_k, b_k, w_v, b_v, scale = wide(el_row.make_arguments(seed, **sizes))
    k = np.einsum("bnd,gkd->bgnk", h, w_k) + b_k[:, None]
    v = np.einsum("bnd,gud->bgnu", h, w_v) + b_v[:, None]
    expected = attend_shared(q, k, v, begin, scale)
    agree(EL(q, h, begin, w_k, b_k, w_v, b_v, scale), expected)
    agree(el.attend_el_all_biases(q, h, begin, w_k, b_k, w_v, b_v, scale), expected)
    own = np.full((len(q), len(w_k), 2, sizes["K"]), 0.3), np.full((len(q), len(w_k), 2, sizes["U"]), 0.7)
    begin_R, end_R = np.arange(len(q)) % 2, np.full(len(q), 2)
    arguments = q, h, begin, w_k, b_k, w_v, b_v, *own, begin_R, end_R, scale
    agree(EL_SPLIT(*arguments), attend_split(q, k, v, begin, *own, begin_R, end_R, scale))


@settings(max_examples=60)
@given(seeds, el_row.draw_sizes(), st.sampled_from([1.0, 30.0, 1000.0]))
def test_the_key_bias_changes_no_weight(seed, sizes, size):
    """With it (Equation 9) and without (the end of Appendix B): a bias as large as you like, the same result."""
    q, h, begin, w_k, b_k, w_v, b_v, scale = wide(el_row.make_arguments(seed, **sizes))
    with_bias = el.attend_el_all_biases(q, h, begin, w_k, size * (1 + b_k), w_v, b_v, scale)
    np.testing.assert_allclose(with_bias, EL(q, h, begin, w_k, b_k, w_v, b_v, scale), atol=1e-11 * (1 + size))
    assert np.array_equal(EL(q, h, begin, w_k, b_k, w_v, b_v, scale), EL(q, h, begin, w_k, -b_k, w_v, b_v, scale))


@settings(max_examples=40)
@given(seeds, el_row.draw_sizes())
def test_beside_a_generated_part_the_key_bias_counts(seed, sizes):
    """It moves the softmax: where q . b_k is large, all weight goes to the prompt; far below zero, none."""
    q, h, begin, *weights, k, v, begin_R, end_R, scale = wide(split_row.make_arguments(seed, **sizes))
    w_k, b_k, w_v, b_v = weights
    q = 1 + np.abs(q)
    strong = np.full_like(b_k, 200 / (scale * sizes["K"]))
    to_the_prompt = EL_SPLIT(q, h, begin, w_k, strong, w_v, b_v, k, v, begin_R, end_R, scale)
    agree(to_the_prompt, EL(q, h, begin, *weights, scale))
    away_from_it = EL_SPLIT(q, h, begin, w_k, -strong, w_v, b_v, k, v, begin_R, end_R, scale)
    agree(away_from_it, attend(q, k, v, begin_R, end_R, scale))


@pytest.mark.parametrize("layout", ["io", "oi"])
@pytest.mark.parametrize("H", [0, 3])
def test_the_weights_of_a_layer_are_views(layout, H):
    """The last columns of a product, in either layout: what they make of h is what the product makes of it."""
    rng, G, K, U, D = np.random.default_rng(0), 3, 4, 5, 7
    width = H * K + G * (K + U)
    data, bias = rng.standard_normal((D, width) if layout == "io" else (width, D)), rng.standard_normal(width)
    weight, heads = Weight(data, bias, layout=layout), Heads(H, G, K, U, 1.0)
    w_k_GKD, b_k_GK, w_v_GUD, b_v_GU = key_value_weights(weight, heads)
    assert all(np.shares_memory(part, data) for part in (w_k_GKD, w_v_GUD))
    assert all(np.shares_memory(part, bias) for part in (b_k_GK, b_v_GU))
    h_RD = rng.standard_normal((6, D))
    _, k_RGK, v_RGU = split_heads(linear(h_RD, weight), bias, heads)
    agree(np.einsum("rd,gkd->rgk", h_RD, w_k_GKD) + b_k_GK, k_RGK)
    agree(np.einsum("rd,gud->rgu", h_RD, w_v_GUD) + b_v_GU, v_RGU)
    narrow = quantize_weight(weight)
    wide = dataclasses.replace(weight, data=dequantize_weight(narrow, bias.dtype))
    for part, expected in zip(key_value_weights(narrow, heads), key_value_weights(wide, heads), strict=True):
        assert np.array_equal(part, expected)
