"""Models whose products are stored as float16 or int8: every plan runs them, and what they say is what is stored."""

import dataclasses

import numpy as np
import pytest
from toy_folder import CONFIG, toy_tensors, write_bart_folder

import minidecode as md
from minidecode.device.low_precision import dequantize_weight
from minidecode.loading import load_shapes
from minidecode.ops import Weight

NARROW = ("float16", "int8")
PLANS = ["cache=none", "cache=replicated", "cache=split,linear=cpu", "cache=el", "cache=indirect,linear=naive",
         "cache=split,arena=planned", "cache=split,linear=cpu,arena=planned"]  # fmt: skip
SEARCH = {"num_beams": 3, "max_new_tokens": 6, "input_ids": [[1, 2, 3, 4], [5, 6]]}


@pytest.fixture(params=["gpt2", "bart"])
def folder(request, tiny_folder, tmp_path):
    return tiny_folder() if request.param == "gpt2" else write_bart_folder(tmp_path / "toy-bart")


def with_stored_numbers(weights):
    """The tree with each narrow matrix as the wide numbers that it stands for."""
    if isinstance(weights, Weight):
        return dataclasses.replace(weights, data=dequantize_weight(weights, np.dtype(np.float32)), scale=None)
    if isinstance(weights, tuple):
        return tuple(with_stored_numbers(part) for part in weights)
    if not dataclasses.is_dataclass(weights):
        return weights
    parts = {f.name: with_stored_numbers(getattr(weights, f.name)) for f in dataclasses.fields(weights)}
    return dataclasses.replace(weights, **parts)


def matrices(weights):
    """Every weight of the tree."""
    if isinstance(weights, Weight):
        yield weights
    elif isinstance(weights, tuple) or dataclasses.is_dataclass(weights):
        parts = (
            weights if isinstance(weights, tuple) else [getattr(weights, f.name) for f in dataclasses.fields(weights)]
        )
        for part in parts:
            yield from matrices(part)


@pytest.mark.parametrize("dtype", NARROW)
def test_every_plan_says_what_the_stored_numbers_say(folder, dtype):
    """Against a float32 model of the very numbers that are stored: so this error is of sums alone."""
    model, wide = md.load(folder, dtype=dtype), md.load(folder)
    wide.weights = with_stored_numbers(model.weights)
    expected = wide.generate(**SEARCH)
    for plan in PLANS:
        out = model.generate(**SEARCH, plan=plan)
        assert [ids.tolist() for ids in out.token_ids] == [ids.tolist() for ids in expected.token_ids], plan
        assert np.abs(out.scores - expected.scores).max() < 1e-5, plan


@pytest.mark.parametrize("dtype", NARROW)
def test_products_alone_are_stored_narrow(folder, dtype):
    model, wide = md.load(folder, dtype=dtype), md.load(folder)
    assert model.dtype == dtype and model.parameters == wide.parameters and model.tensors == {}
    pairs = list(zip(matrices(model.weights), matrices(wide.weights), strict=True))
    assert len(pairs) == sum(1 for _ in matrices(wide.weights)) > 5
    for mine, theirs in pairs:
        assert mine.data.dtype == dtype and mine.layout == "oi"
        assert mine.data.shape == (theirs.data.shape if theirs.layout == "oi" else theirs.data.shape[::-1])
        assert (mine.scale is None) == (dtype == "float16")
        assert (mine.bias is None and theirs.bias is None) or np.array_equal(mine.bias, theirs.bias)
    tables = [(w.weights.decoder if w.is_encoder_decoder else w.weights).wte_VD for w in (model, wide)]
    assert tables[0].dtype == np.float32 and np.array_equal(*tables), "the embedding is looked up in float32"


@pytest.mark.parametrize("dtype", NARROW)
def test_logits_are_float32_and_near(folder, dtype):
    """Not equal, or nothing would be stored narrow; and near: each weight is off by 2**-11 or half a step of 127."""
    arguments = {"input_ids": [[1, 2, 3]]} | ({"decoder_input_ids": [[2, 3]]} if "bart" in str(folder) else {})
    (narrow,), (wide,) = (md.load(folder, dtype=d).logits(**arguments) for d in (dtype, "float32"))
    off = np.abs(narrow - wide).max() / np.abs(wide).max()
    assert narrow.dtype == np.float32 and 0 < off < (0.01 if dtype == "float16" else 0.1)


def test_weights_of_float16_lose_nothing_as_float16(tiny_folder):
    """The bundled models are stored so; the sums run in another order."""
    folder = tiny_folder(dtype=dict.fromkeys(toy_tensors(CONFIG), "F16"))
    (narrow,), (wide,) = (md.load(folder, dtype=d).logits(input_ids=[[1, 2, 3]]) for d in ("float16", "float32"))
    assert np.abs(narrow - wide).max() <= 1e-5 * np.abs(wide).max()


def test_the_receipt_counts_narrow_bytes(tiny_folder):
    moved = {d: md.load(tiny_folder(), dtype=d).generate(**SEARCH).receipt.ops["linear"].bytes
             for d in ("float32", *NARROW)}  # fmt: skip
    assert moved["float32"] > moved["float16"] > moved["int8"]


@pytest.mark.parametrize("dtype", NARROW)
def test_weights_that_are_no_numbers_are_refused_by_name(tiny_folder, dtype):
    tensors = toy_tensors(CONFIG)
    tensors["h.0.mlp.c_fc.weight"][0, 0] = np.nan
    with pytest.raises(md.CheckpointError, match=r"NaN or infinity, first in h\.0\.mlp\.c_fc\.weight"):
        md.load(tiny_folder(tensors=tensors), dtype=dtype)


def test_shapes_alone_can_be_narrow():
    assert load_shapes("tiny-gpt2", dtype="int8").weights.lm_head.data.dtype == np.int8


@pytest.mark.parametrize("dtype", NARROW)
def test_the_receipt_counts_els_wide_copies(folder, dtype):
    """EL computes with W_K and W_V outside of a product: where they are stored narrow, that costs what it saves."""
    narrow, wide = (md.load(folder, dtype=d).generate(**SEARCH, plan="cache=el") for d in (dtype, "float32"))
    weights = md.load(folder).weights
    products = [weights.cross_kv] if weights.cross_kv is not None else [block.qkv for block in weights.blocks]
    keys_and_values = 1 if weights.cross_kv is not None else 2 / 3
    copies = sum(keys_and_values * product.data.nbytes for product in products)
    assert narrow.receipt.cache_peak_bytes - wide.receipt.cache_peak_bytes == pytest.approx(copies, abs=0.5)
