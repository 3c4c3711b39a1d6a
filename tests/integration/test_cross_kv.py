"""The keys and values of a source, for all decoder layers, come from one op and one product."""

from dataclasses import replace

import numpy as np
import pytest
from test_attention_settings import make

from minidecode.cache.cross import weight_of_layer
from minidecode.cache.source import Source
from minidecode.cpu.common.packing import pack_weights
from minidecode.cpu.common.tile import DOT, FLOAT
from minidecode.cpu.cross_kv import project_cross_kv
from minidecode.cpu.linear import linear
from minidecode.cpu.linear_int8 import linear_int8
from minidecode.device.low_precision import read_only_weights
from minidecode.ops import Heads, Weight
from minidecode.plan import CACHES, Plan
from minidecode.reference.cross_kv import arrange_layers
from minidecode.runtime.receipt import CountedOps, base_array, bytes_held_by

LENGTHS = [5, 1, 3]
OFFSETS = np.array([0, 5, 6, 9])
KEEP_THEM = [name for name in CACHES if name != "el"]


def made(weights, cache):
    """(ops, caches of all layers, source), after the product."""
    ops = CountedOps(Plan().resolve()[0])
    matrix = weights.cross_kv.data
    source = Source(np.random.default_rng(0).standard_normal((9, matrix.shape[1])).astype(matrix.dtype), OFFSETS)
    starts = np.arange(len(LENGTHS) + 1)
    return ops, Plan(cache=cache).cache_kind(has_encoder=True).cross.of_layers(ops, weights, source, starts), source


@pytest.mark.parametrize("cache", KEEP_THEM)
@pytest.mark.parametrize("settings", [{}, {"num_key_value_heads": 1}, {"key_width": 4, "value_width": 5}], ids=str)
def test_they_are_those_of_a_product_for_each_layer(cache, settings):
    weights = make("bart", **settings).weights
    ops, caches, source = made(weights, cache)
    assert ops.counts()["project_cross_kv"].calls == 1 and "linear" not in ops.counts()
    assert 1 < len(caches) == len(weights.blocks)
    for layer, (cache, block) in enumerate(zip(caches, weights.blocks, strict=True)):
        part, heads = weight_of_layer(weights.cross_kv, layer, len(caches)), replace(block.cross_heads, H=0)
        _, k_RGK, v_RGU = ops.split_heads(ops.linear(source.h_RD, part), part.bias, heads)
        sizes = np.abs(source.h_RD) @ np.abs(part.data.T) + np.abs(part.bias)
        bound = np.finfo(part.data.dtype).eps * part.data.shape[1] * sizes
        assert (np.abs(cache.k_RGK - k_RGK) <= bound[:, : k_RGK[0].size].reshape(k_RGK.shape)).all()
        assert (np.abs(cache.v_RGU - v_RGU) <= bound[:, k_RGK[0].size :].reshape(v_RGU.shape)).all()


@pytest.mark.parametrize("cache", KEEP_THEM)
def test_no_layer_holds_the_product_of_all(cache):
    """What is held is each layer's own keys and values: nobody keeps the wide result alive."""
    weights = make("bart").weights
    _, caches, _ = made(weights, cache)
    width = weights.cross_kv.data.shape[0]
    held = bytes_held_by(a for cache in caches for a in cache.arrays())
    assert held == weights.cross_kv.data.itemsize * sum(LENGTHS) * width


def test_the_weights_are_held_once_and_el_makes_no_keys():
    weights = make("bart").weights
    for layer in range(len(weights.blocks)):
        part = weight_of_layer(weights.cross_kv, layer, len(weights.blocks))
        whole = weights.cross_kv
        assert base_array(part.data) is base_array(whole.data) and base_array(part.bias) is base_array(whole.bias)
    ops, caches, source = made(weights, "el")
    assert not ops.counts()
    assert all(base_array(m.weights[0]) is base_array(weights.cross_kv.data) for m in caches)
    assert bytes_held_by(a for m in caches for a in m.arrays()) == source.h_RD.nbytes


@pytest.mark.parametrize("layout", ["oi", "io"])
def test_a_layers_part_in_both_layouts(layout):
    weight = make("bart").weights.cross_kv
    turned = weight if layout == "oi" else replace(weight, data=weight.data.T, layout="io")
    x_RD = np.ones((2, weight.data.shape[1]), np.float32)
    ops = CountedOps(Plan().resolve()[0])
    whole = ops.linear(x_RD, weight)
    parts = [ops.linear(x_RD, weight_of_layer(turned, layer, 2)) for layer in range(2)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(FLOAT is None or DOT is None, reason="this processor has no instructions for weights in panels")
@pytest.mark.parametrize("rows", [1, 7, 100])
@pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("dtype", ["float32", "int8_dynamic"])
@pytest.mark.parametrize(("width", "is_whole"), [(64, True), (48, False)], ids=["whole panels", "parts of panels"])
def test_products_that_end_in_place_say_what_one_product_says(monkeypatch, width, is_whole, dtype, has_bias, rows):
    """To the last bit: each sum runs over its inputs in their order, and then comes its bias."""
    random = np.random.default_rng(width + rows)
    heads, layers, inputs = Heads(H=0, G=2, K=width, U=width, scale=1.0), 3, 40
    outputs = layers * heads.G * 2 * width
    bias_X = random.standard_normal(outputs).astype(np.float32) if has_bias else None
    plain = Weight(random.standard_normal((outputs, inputs)).astype(np.float32), bias_X, layout="oi")
    (weight,) = read_only_weights(pack_weights(dtype, (plain,), must=True))
    h_RD = random.standard_normal((rows, inputs)).astype(np.float32)
    expected = arrange_layers((linear if dtype == "float32" else linear_int8)(h_RD, weight), weight, heads)
    moved = []
    monkeypatch.setattr(
        "minidecode.cpu.cross_kv.arrange_layers", lambda *given: moved.append(1) or arrange_layers(*given)
    )
    for mine, theirs in zip(project_cross_kv(h_RD, weight, heads), expected, strict=True):
        assert mine.tobytes() == theirs.tobytes()
    assert len(moved) == (0 if is_whole and dtype == "float32" else 1)
