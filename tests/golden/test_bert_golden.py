"""BERT against numbers that transformers 5 computed: rows, pooled rows, and logits of texts and of tokens.

tests/golden/make_bert.py remakes the numbers.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.register_assert_rewrite("golden_suite")

from golden_suite import gain_off_by_a_thousandth, pad, scale_off_by_a_thousandth, stored_tensors  # noqa: E402
from tolerance import FLOAT32, FLOAT64, logit_bound  # noqa: E402

import minidecode as md  # noqa: E402
from minidecode.methods import encoding  # noqa: E402
from minidecode.models import bert  # noqa: E402
from minidecode.models.bert import BertConfig  # noqa: E402
from minidecode.reference import embedding, prefill  # noqa: E402

FOLDER = Path(__file__).parent / "bert"
NAMES = sorted(f.name for f in FOLDER.iterdir() if f.is_dir())


class Golden:
    """One folder of golden files, opened."""

    def __init__(self, name: str):
        self.folder = FOLDER / name
        cases = json.loads((self.folder / "cases.json").read_text(encoding="utf-8"))
        self.ids, self.types = cases["ids"], cases["types"]
        with np.load(self.folder / "expected.npz") as file:
            self.expected = {key: file[key] for key in file}
        self.rows = [self.expected[f"rows_{b}"] for b in range(len(self.ids))]
        self.config = self.load().config
        self.largest = max(np.abs(rows_ND).max() for rows_ND in self.rows)

    def load(self, **options) -> md.Model:
        return md.load(self.folder, **options)

    def fields(self) -> dict:
        return json.loads((self.folder / "config.json").read_text(encoding="utf-8"))

    def error(self, model: md.Model, **how) -> float:
        """The largest difference of a number of a row from the expected one; all texts in one call."""
        found = model.encode_tokens(**({"input_ids": self.ids, "token_type_ids": self.types} | how))
        assert [a.shape for a in found] == [b.shape for b in self.rows]
        return max(np.abs(a - b).max() for a, b in zip(found, self.rows, strict=True))

    def bound(self, unit: float, largest: float | None = None) -> float:
        return logit_bound(self.config, self.largest if largest is None else largest, unit)


@pytest.fixture(scope="module", params=NAMES)
def golden(request) -> Golden:
    return Golden(request.param)


@pytest.mark.parametrize(("dtype", "unit"), [("float64", 2 * FLOAT64), ("float32", FLOAT32)])
@pytest.mark.parametrize("plan", ["numpy", "naive", "fast"])
def test_rows(golden, plan, dtype, unit):
    assert golden.error(golden.load(dtype=dtype, plan=plan)) <= golden.bound(unit)


@pytest.mark.parametrize("layout", ["left", "right", "strewn"])
def test_padding_does_not_touch_rows(golden, layout):
    ids_BN, mask_BN = pad(golden.ids, layout)
    types_BN, _ = pad(golden.types, layout)
    how = {"input_ids": ids_BN, "attention_mask": mask_BN, "token_type_ids": types_BN}
    assert golden.error(golden.load(dtype="float64"), **how) <= golden.bound(2 * FLOAT64)


def test_a_text_alone_is_what_it_is_in_its_batch(golden, monkeypatch):
    """In one forward pass, in one for each text, and alone."""
    model = golden.load(dtype="float64")
    given = {"input_ids": golden.ids, "token_type_ids": golden.types}
    together = model.encode(**given)
    alone = [model.encode(input_ids=[a], token_type_ids=[b])[0] for a, b in zip(golden.ids, golden.types, strict=True)]
    monkeypatch.setattr(encoding, "ROWS", 7)
    in_parts = model.encode(**given)
    assert np.abs(together - alone).max() <= golden.bound(2 * FLOAT64)
    assert np.abs(together - in_parts).max() <= golden.bound(2 * FLOAT64)


def test_the_bound_says_something():
    """At most 32 times the error that float32 really makes, for most models."""
    tight = {g.folder.name: g.bound(FLOAT32) <= 32 * g.error(g.load()) for g in map(Golden, NAMES)}
    assert sum(tight.values()) > len(tight) / 2, tight


def last_row_sees_no_first_key(monkeypatch):
    """The last row of each text of several tokens does without its first key."""
    right = prefill.attend_prefill

    def wrong(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
        a_RX = right(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window, bias, out).copy()
        for first, last in pairwise(q_offsets_X):
            if last - first > 1:
                rows, one_X = slice(first + 1, last), np.array([0, last - first - 1])
                some = (q_RHK[rows], k_XGK[rows], v_XGU[rows], one_X, one_X)
                a_RX[last - 1] = right(*some, scale, causal, window, bias)[-1]
        return a_RX

    monkeypatch.setattr(prefill, "attend_prefill", wrong)


def is_causal(monkeypatch):
    """Rows look back alone, as a decoder's do."""
    right = prefill.attend_prefill

    def wrong(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
        return right(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, True, window, bias, out)

    monkeypatch.setattr(prefill, "attend_prefill", wrong)


def places_are_off_by_one(monkeypatch):
    right = embedding.embed_norm

    def wrong(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out=None):
        return right(ids_R, (pos_R + 1) % len(wpe_ND), wte_VD, wpe_ND, scale, norm, out)

    monkeypatch.setattr(embedding, "embed_norm", wrong)


@pytest.mark.parametrize(
    "plant",
    [scale_off_by_a_thousandth, gain_off_by_a_thousandth, last_row_sees_no_first_key, is_causal, places_are_off_by_one],
)
def test_a_planted_mistake_breaks_the_bound(golden, plant, monkeypatch):
    """The float32 bound, which is the wide one."""
    plant(monkeypatch)
    assert golden.error(golden.load(plan="numpy")) > golden.bound(FLOAT32)


def test_types_of_tokens_matter(golden):
    if golden.config.type_vocab_size == 1:
        pytest.skip("it has one type")
    model = golden.load()
    flat = [[0] * len(row) for row in golden.types]
    assert golden.error(model, token_type_ids=flat) > golden.bound(FLOAT32)


@pytest.mark.parametrize(
    "plan", ["cache=el", "fast,arena=planned", "ngram=cpu", "fast,cache=indirect", "drop_finished=off"]
)
def test_a_choice_without_effect_is_refused(golden, plan):
    name = plan.removeprefix("fast,").partition("=")[0]
    with pytest.raises(md.OptionError, match=f"plan: {name}=.* has no effect in an encoder, which decodes nothing"):
        golden.load(plan=plan).encode(input_ids=[[3, 4]])


@pytest.mark.parametrize("plan", ["prefill=naive", "norm=naive", "epilogue=reference", "fast,epilogue=cpu"])
def test_a_choice_of_an_op_that_encoders_call_has_an_effect(golden, plan):
    assert golden.error(golden.load(), plan=plan) <= golden.bound(FLOAT32)


# ---- pooling and classifiers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "pooler"])
@pytest.mark.parametrize("normalize", [False, True])
def test_vectors(golden, pooling, normalize):
    given = {"input_ids": golden.ids, "token_type_ids": golden.types, "pooling": pooling, "normalize": normalize}
    model = golden.load(dtype="float64")
    if pooling == "pooler" and not golden.config.has_pooler:
        with pytest.raises(md.OptionError, match=r"hold no pooler\.dense\.weight"):
            model.encode(**given)
        return
    if pooling == "pooler" and "pooled" not in golden.expected:
        pytest.skip("transformers leaves this pooler out")
    how = {"mean": lambda x: x.mean(axis=0), "cls": lambda x: x[0], "max": lambda x: x.max(axis=0)}
    right = golden.expected["pooled"] if pooling == "pooler" else np.stack([how[pooling](x) for x in golden.rows])
    if normalize:
        right = right / np.linalg.norm(right, axis=1, keepdims=True)
    found = model.encode(**given)
    assert found.shape == right.shape
    assert np.abs(found - right).max() <= golden.bound(2 * FLOAT64)
    assert np.abs(golden.load().encode(**given) - right).max() <= golden.bound(FLOAT32)


def expected_scores(golden, logits: np.ndarray) -> np.ndarray:
    """By their definitions: a softmax, sigmoids, or the numbers themselves."""
    problem = golden.fields().get("problem_type")
    if problem == "regression":
        return logits
    if problem == "multi_label_classification" or logits.shape[-1] == 1:
        return 1 / (1 + np.exp(-logits))
    return np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)


def test_labels_of_texts(golden):
    model = golden.load(dtype="float64")
    given = {"input_ids": golden.ids, "token_type_ids": golden.types}
    if "logits" not in golden.expected:
        what = "is one of tokens, not texts: use classify_tokens" if golden.config.has_classifier else "no classifier"
        with pytest.raises(md.OptionError, match=what):
            model.classify(**given)
        return
    right = expected_scores(golden, golden.expected["logits"])
    found = model.classify(**given)
    labels = list(golden.fields().get("id2label", {"0": "LABEL_0", "1": "LABEL_1"}).values())
    for one, score_L in zip(found, right, strict=True):
        assert set(one.scores) == set(labels) and one.label == next(iter(one.scores)) == labels[score_L.argmax()]
        bound = golden.bound(2 * FLOAT64, np.abs(golden.expected["logits"]).max())
        assert np.abs(np.array([one.scores[label] for label in labels]) - score_L).max() <= bound
        assert one.score == max(one.scores.values())
    narrow = golden.load().classify(**given)
    assert [n.label for n in narrow] == [one.label for one in found]


def test_logits_of_tokens(golden):
    if "logits_0" not in golden.expected:
        pytest.skip("it has no classifier of tokens")
    model = golden.load(dtype="float64")
    ops = encoding.ops_to_encode(model, encoding.Read([np.array(golden.ids[0])], [np.array(golden.types[0])]), None)
    largest = max(np.abs(golden.expected[f"logits_{b}"]).max() for b in range(len(golden.ids)))
    for b, x_ND in enumerate(model.encode_tokens(input_ids=golden.ids, token_type_ids=golden.types)):
        error = np.abs(bert.label_logits(model.weights, x_ND, ops) - golden.expected[f"logits_{b}"]).max()
        assert error <= golden.bound(2 * FLOAT64, largest)
    with pytest.raises(md.OptionError, match="is one of tokens, not texts: use classify_tokens"):
        model.classify(input_ids=golden.ids)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_narrow_weights_give_nearly_the_same_vectors(golden, dtype):
    given = {"input_ids": golden.ids, "token_type_ids": golden.types, "normalize": True}
    right, found = golden.load().encode(**given), golden.load(dtype=dtype).encode(**given)
    assert (np.sum(right * found, axis=1) > (0.9999 if dtype == "float16" else 0.98)).all()
    assert dtype == "float16" or not np.array_equal(right, found)  # some files hold float16 anyway


# ---- what the files cover --------------------------------------------------------------------------------------------


def test_the_models_cover_what_a_config_can_say():
    goldens = [Golden(name) for name in NAMES]
    fields = [g.fields() for g in goldens]
    assert len(fields) == 12
    assert {f["architectures"][0] for f in fields} == {
        "BertModel", "BertForSequenceClassification", "BertForTokenClassification"
    }  # fmt: skip
    assert {f.get("problem_type") for f in fields} == set(BertConfig.PROBLEMS)
    assert {f["type_vocab_size"] for f in fields} == {1, 2, 3}
    tensors = [stored_tensors(g.folder) for g in goldens]
    assert {t.dtype for each in tensors for t in each.values()} == {"F32", "F16", "BF16"}
    assert any("gamma" in name for each in tensors for name in each)
    assert {any(name.startswith("bert.") for name in each) for each in tensors} == {True, False}


@pytest.mark.parametrize(
    ("changes", "say"),
    [({"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key' is not supported for bert"),
     ({"is_decoder": True}, "is_decoder=True is not supported for bert"),
     ({"add_cross_attention": True}, "add_cross_attention=True is not supported for bert"),
     ({"problem_type": "ranking"}, "problem_type 'ranking' is not one of single_label_classification, multi_label"),
     ({"id2label": {"0": "a", "2": "b"}}, "id2label must name each label by its number from 0"),
     ({"id2label": ["a"]}, "id2label must name each label by its number from 0"),
     ({"id2label": {"0": "a", "1": "b", "2": "a"}}, "id2label has 'a' twice: give each label a name of its own"),
     ({"num_labels": 0}, "num_labels must be an integer above 0, not 0"),
     ({"layer_norm_eps": "small"}, "layer_norm_eps must be a number from 0 to 1, not 'small'"),
     ({"type_vocab_size": 0}, "type_vocab_size must be an integer from 1"),
     ({"num_attention_heads": 5}, "hidden_size 768 is not a multiple of num_attention_heads 5"),
     ({"hidden_act": "gelu_7"}, "activation_function 'gelu_7' is not one of")],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(changes, say):
    with pytest.raises(md.CheckpointError, match=say):
        BertConfig.from_json({"model_type": "bert"} | changes)
