"""GPT-BigCode (StarCoder) against numbers that transformers 5 computed: logits, greedy search and beam search.

tests/golden/make_gpt_bigcode.py remakes the numbers; golden_suite.py holds the tests that the families share.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import minidecode as md
from minidecode.loading import load_shapes
from minidecode.models.gpt_bigcode import GPTBigCodeConfig

pytest.register_assert_rewrite("golden_suite")

from golden_suite import Golden, GoldenSuite, open_all, stored_tensors  # noqa: E402

FOLDER = Path(__file__).parent / "gpt_bigcode"
MODELS = open_all(FOLDER)


@pytest.fixture(scope="module", params=MODELS, ids=lambda golden: golden.name)
def golden(request) -> Golden:
    return request.param


class TestGPTBigCode(GoldenSuite):
    FOLDER = FOLDER


def test_the_models_cover_what_a_config_can_say():
    fields = [golden.fields() for golden in MODELS]
    assert len(fields) == 12
    assert {f.get("multi_query", True) for f in fields} == {True, False}
    assert {f["n_head"] for f in fields} >= {1, 2, 3, 4, 5, 6, 8}
    assert {(f.get("multi_query", True), f.get("tie_word_embeddings", True)) for f in fields} == {
        (a, b) for a in (True, False) for b in (True, False)
    }
    dtypes = {t.dtype for golden in MODELS for t in stored_tensors(golden.folder).values()}
    assert dtypes == {"F32", "F16", "BF16"}


def test_heads_in_another_order_are_another_model(monkeypatch):
    """A c_attn of interleaved heads that is read as queries, keys and values breaks the bound."""
    (golden,) = (g for g in MODELS if g.name == "multi-head")
    monkeypatch.setattr(GPTBigCodeConfig, "is_interleaved", False)
    assert golden.error(golden.load()) > 100 * golden.bound(2.0**-24)


def test_keys_and_values_can_be_pooled(golden, tmp_path):
    """The logits of one pooled head are those of a GPT-2 whose heads were pooled, and transformers' layout is kept."""
    if golden.config.num_key_value_heads == 1 or golden.config.n_head == 1:
        with pytest.raises(md.OptionError, match="there is nothing to convert"):
            md.convert(golden.folder, tmp_path / "one", num_key_value_heads=1)
        return
    md.convert(golden.folder, tmp_path / "one", num_key_value_heads=1)
    fields = json.loads((tmp_path / "one" / "config.json").read_text(encoding="utf-8"))
    assert fields["multi_query"] is True and "mean-pooled into 1" in fields["different_model"]
    old, new = golden.load(dtype="float64"), md.load(tmp_path / "one", dtype="float64")
    H, K = old.config.n_head, old.config.n_embd // old.config.n_head
    for name, wide in old.tensors.items():
        right = wide
        if ".c_attn." in name:  # by the definition: head after head, each its query, key and value
            heads = wide.reshape(H, 3, K, *wide.shape[1:])
            q = heads[:, 0].reshape(H * K, *wide.shape[1:])
            right = np.concatenate([q, heads[:, 1].mean(axis=0), heads[:, 2].mean(axis=0)])
        assert abs(new.tensors[name] - right).max() <= 1e-2 * abs(right).max(), name
    out = new.generate(input_ids=[[3, 4]], max_new_tokens=3, num_beams=2)
    assert out.token_ids[0].size


def test_some_heads_can_be_pooled(tmp_path):
    """Two heads of eight: c_attn has queries, keys and values in turn then, which only minidecode reads."""
    (golden,) = (g for g in MODELS if g.name == "old-file")
    md.convert(golden.folder, tmp_path / "two", num_key_value_heads=2)
    model = md.load(tmp_path / "two")
    assert not model.config.is_interleaved and model.weights.blocks[0].heads.G == 2
    first, again = (model.generate(input_ids=[[3, 4]], max_new_tokens=4, plan=plan).token_ids[0]
                    for plan in ("cache=none", "cache=split"))  # fmt: skip
    assert np.array_equal(first, again)


def test_weights_of_shared_heads_are_not_copied():
    """(out, in) is the order that products read, and c_attn of multi_query lies as heads are split."""
    (golden,) = (g for g in MODELS if g.name == "multi-query")
    model = golden.load(plan="numpy")
    assert np.shares_memory(model.weights.blocks[0].qkv.data, model.tensors["h.0.attn.c_attn.weight"])


@pytest.mark.parametrize(
    ("changes", "say"),
    [({"add_cross_attention": True}, "add_cross_attention is not supported in decoder-only models"),
     ({"multi_query": 1}, "multi_query must be true or false, not 1"),
     ({"num_key_value_heads": 3}, "multi_query has one key/value head, and num_key_value_heads is 3: set multi_query"),
     ({"activation_function": "gelu_7"}, "activation_function 'gelu_7' is not one of"),
     ({"n_head": 7}, "n_embd 12 is not a multiple of n_head 7")],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(changes, say):
    with pytest.raises(md.CheckpointError, match=say):
        GPTBigCodeConfig.from_json({"n_embd": 12, "n_head": 3, "vocab_size": 37} | changes)


def test_published_shapes():
    model = load_shapes("tiny_starcoder_py")
    assert model.weights.blocks[0].heads.G == 1 and model.config.n_inner == 3072 and model.config.context == 8192
    assert model.parameters == 164_144_128
