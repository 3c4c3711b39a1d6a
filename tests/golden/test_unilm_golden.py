"""UniLM against numbers that transformers 5 computed, as a BERT with UniLM's mask, and texts of s2s-ft's search.

tests/golden/make_unilm.py remakes the numbers; golden_suite.py holds the tests that the families share.
"""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import minidecode as md
from minidecode.cache import prefix
from minidecode.loading import load_shapes
from minidecode.models import unilm
from minidecode.models.bert import BertConfig
from minidecode.models.unilm import UnilmConfig
from minidecode.runtime.in_front import InFront

pytest.register_assert_rewrite("golden_suite")

from golden_suite import Golden, GoldenSuite, largest_error, open_all, stored_tensors  # noqa: E402
from tolerance import FLOAT32, FLOAT64  # noqa: E402
from unilm_oracle import logits  # noqa: E402

FOLDER = Path(__file__).parent / "unilm"
MODELS = open_all(FOLDER)


@pytest.fixture(scope="module", params=MODELS, ids=lambda golden: golden.name)
def golden(request) -> Golden:
    return request.param


class TestUnilm(GoldenSuite):
    FOLDER = FOLDER


def test_the_written_oracle_agrees_with_transformers(golden):
    """The equations in NumPy, which other tests use where torch is missing."""
    fields, tensors = golden.fields(), golden.load(dtype="float64").tensors
    if golden.config.has_fast_qkv:
        return
    for source, target, right in zip(golden.logit_prompts, golden.logit_targets, golden.logits, strict=True):
        read = source[:-1] if fields.get("pos_shift") else source
        found = logits(fields, tensors, read, target)
        assert largest_error([found], [right]) <= 2 * golden.bound(FLOAT64)


def test_the_models_cover_what_a_config_can_say():
    fields = [golden.fields() for golden in MODELS]
    assert len(fields) == 12
    assert {f.get("pos_shift", False) for f in fields} == {True, False}
    assert {f["num_attention_heads"] for f in fields} >= {1, 2, 3, 4, 5, 6}
    assert {f["type_vocab_size"] for f in fields} >= {1, 2, 3, 6}
    assert {g.config.has_fast_qkv for g in MODELS} == {True, False}
    stored = [stored_tensors(golden.folder) for golden in MODELS]
    assert {t.dtype for tensors in stored for t in tensors.values()} == {"F32", "F16", "BF16"}
    assert {any("gamma" in name for name in tensors) for tensors in stored} == {True, False}


def test_the_cases_cover_the_options():
    seen, ends, mixed, cases = Counter(), 0, 0, 0
    for golden in MODELS:
        for case in golden.generation:
            cases += 1
            seen.update(case["options"].items())
            ends += any(tokens[-1] == 2 for tokens in case["tokens"])
            mixed += len({len(p) for p in case["prompts"]}) > 1
    assert cases >= 95 and ends >= 40 and mixed >= 40
    for name, values in {"num_beams": (1, 2, 3, 4), "length_penalty": (0.0, 0.6, 1.0),
                         "no_repeat_ngram_size": (0, 2, 3)}.items():  # fmt: skip
        assert all(seen[name, value] >= 5 for value in values), (name, seen)


# ---- known mistakes --------------------------------------------------------------------------------------------------


def mask_of_a_source(monkeypatch):
    """[MASK] has the segment of sources."""
    right = unilm.bind

    def wrong(c, tensors):
        w = right(c, tensors)
        P, word = w.target_place, w.wte_VD[c.mask_token_id]
        behind = np.concatenate([word + w.place_XD[1:P], np.zeros_like(word[None])])
        return unilm.replace(w, query_ND=np.concatenate([behind, behind]))

    monkeypatch.setattr(unilm, "bind", wrong)


def mask_at_the_position_of_its_token(monkeypatch):
    right = unilm.bind

    def wrong(c, tensors):
        w = right(c, tensors)
        here = w.wte_VD[c.mask_token_id] + w.place_XD[w.target_place :]
        return unilm.replace(w, query_ND=np.concatenate([here, here]))

    monkeypatch.setattr(unilm, "bind", wrong)


def causal_prompt(monkeypatch):
    """A source is read as GPT-2 reads a prompt."""
    right = prefix.attend_prompt
    for place in ("prompt", "no_cache"):
        module = __import__(f"minidecode.cache.{place}", fromlist=["x"])
        monkeypatch.setattr(module, "attend_prompt", lambda *args: right(*args[:6], None))


def eps_of_the_file(monkeypatch):
    right = UnilmConfig.from_json.__func__

    def wrong(cls, fields):
        return unilm.replace(right(cls, fields), layer_norm_eps=1e-12)

    monkeypatch.setattr(UnilmConfig, "from_json", classmethod(wrong))


def targets_begin_one_later(monkeypatch):
    """The positions of a target leave one out behind its source."""
    right = InFront.layout

    def wrong(self, joined, every_row):
        place_R, rows, pick_R = right(self, joined, every_row)
        return np.where(place_R >= self.target_place, place_R + 1, place_R), rows, pick_R

    monkeypatch.setattr(InFront, "layout", wrong)


def no_segments(monkeypatch):
    """Targets have the segment of sources."""
    right = unilm.bind

    def wrong(c, tensors):
        return right(unilm.replace(c, target_type_id=c.source_type_id), tensors)

    monkeypatch.setattr(unilm, "bind", wrong)


MASK_ALONE = (mask_of_a_source, mask_at_the_position_of_its_token)


@pytest.mark.parametrize("plant", [*MASK_ALONE, causal_prompt, eps_of_the_file, targets_begin_one_later, no_segments])
def test_a_mistake_of_unilm_breaks_the_bound(golden, plant, monkeypatch):
    if golden.config.pos_shift and plant in MASK_ALONE:
        pytest.skip("pos_shift has no [MASK]")
    if golden.config.source_type_id == golden.config.target_type_id and plant in (no_segments, mask_of_a_source):
        pytest.skip("one type for all")
    plant(monkeypatch)
    unit, times = (FLOAT64, 2) if plant is eps_of_the_file else (FLOAT32, 1)
    dtype = "float64" if plant is eps_of_the_file else "float32"
    assert golden.error(golden.load(dtype=dtype)) > times * golden.bound(unit)


# ---- files and settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "say"),
    [({"rel_pos_bins": 32}, r"rel_pos_bins=32 asks for relative positions \(UniLM 2\), which is not supported: use"),
     ({"max_rel_pos": 128}, "max_rel_pos=128 asks for relative positions"),
     ({"relax_projection": 4}, "relax_projection=4 asks for a projection for each task"),
     ({"new_pos_ids": True}, "new_pos_ids=True asks for positions for each task"),
     ({"num_qkv": 2}, "num_qkv=2 asks for several sets"),
     ({"seg_emb": True}, "seg_emb=True asks for segments inside attention"),
     ({"ffn_type": 1}, "ffn_type=1 asks for another feed-forward layer"),
     ({"attention_window": 4}, "attention_window is not supported for unilm: leave it out"),
     ({"mask_token_id": 37}, "mask_token_id must be an integer from 0 to 36, not 37"),
     ({"target_type_id": 6}, "target_type_id must be an integer from 0 to 5, not 6"),
     ({"pos_shift": 1}, "pos_shift must be true or false, not 1"),
     ({"num_attention_heads": 5}, "hidden_size 12 is not a multiple of num_attention_heads 5")],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(changes, say):
    fields = next(g for g in MODELS if g.name == "plain").fields()
    with pytest.raises(md.CheckpointError, match=say):
        UnilmConfig.from_json(fields | changes)


def test_what_s2s_ft_calls_a_bert_is_named():
    """Its config.json has BERT's model_type, and the types of sources and targets."""
    with pytest.raises(md.CheckpointError, match="target_type_id belongs to UniLM: set model_type to unilm"):
        BertConfig.from_json({"model_type": "bert", "source_type_id": 0, "target_type_id": 1})


def test_another_vocabulary_is_refused(tmp_path):
    golden = next(g for g in MODELS if g.name == "plain")
    shutil.copytree(golden.folder, tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(path.read_text().replace('"vocab_size": 37', '"vocab_size": 38'))
    with pytest.raises(md.CheckpointError, match=r"word_embeddings.weight has shape \(37, 12\), expected \(38, 12\)"):
        md.load(tmp_path / "model")


def test_heads_can_be_pooled(golden, tmp_path):
    """One key/value head in place of all, of both ways to store them."""
    H = golden.config.num_attention_heads
    if H == 1:
        with pytest.raises(md.OptionError, match="there is nothing to convert"):
            md.convert(golden.folder, tmp_path / "one", num_key_value_heads=1)
        return
    md.convert(golden.folder, tmp_path / "one", num_key_value_heads=1)
    old, new = golden.load(dtype="float64"), md.load(tmp_path / "one", dtype="float64")
    D, K = old.config.hidden_size, old.config.hidden_size // H
    qkv, pooled = (model.weights.blocks[0].qkv for model in (old, new))
    for a, b in ((qkv.data, pooled.data), (qkv.bias, pooled.bias)):
        heads = a[D:].reshape(2, H, K, *a.shape[1:]).mean(axis=1).reshape(2 * K, *a.shape[1:])
        assert np.abs(b - np.concatenate([a[:D], heads])).max() <= 1e-2 * np.abs(a).max()
    out = new.generate(input_ids=[[1, 4, 5, 2]], max_new_tokens=3, num_beams=2, plan="cache=el")
    assert out.token_ids[0].size


@pytest.mark.parametrize(
    ("name", "parameters", "layers"),
    [("unilm1.2-base-uncased", 109_517_370, 12), ("unilm1-large-cased", 333_614_404, 24)],
)
def test_published_shapes(name, parameters, layers):
    """BERT's tables and layers without its pooler, and the head of its training."""
    model = load_shapes(name)
    assert (model.parameters, model.config.layers, model.options().eos_token_id) == (parameters, layers, (102,))
    assert load_shapes(name, vocab_size=50).config.mask_token_id == 0  # [MASK] lies beyond such a vocabulary
