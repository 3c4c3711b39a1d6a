"""mBART against numbers that transformers 5 computed: logits, greedy search and beam search.

tests/golden/make_mbart.py remakes the numbers; golden_suite.py holds the tests that the families share.
"""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

pytest.register_assert_rewrite("golden_suite")

from golden_suite import Golden, GoldenSuite, open_all, stored_tensors  # noqa: E402
from tolerance import FLOAT32  # noqa: E402

import minidecode as md  # noqa: E402
from minidecode.models import mbart  # noqa: E402
from minidecode.models.mbart import MBartConfig  # noqa: E402
from minidecode.reference import activation  # noqa: E402

FOLDER = Path(__file__).parent / "mbart"
MODELS = open_all(FOLDER)
SCALED = [golden for golden in MODELS if golden.fields()["scale_embedding"]]
BIASED = [golden for golden in MODELS if "final_logits_bias" in stored_tensors(golden.folder)]


@pytest.fixture(scope="module", params=MODELS, ids=lambda golden: golden.name)
def golden(request) -> Golden:
    return request.param


# ---- mistakes that the bound has to see ------------------------------------------------------------------------------


def with_weights(change):
    """A planted mistake: other weights of both sides."""

    def plant(monkeypatch):
        right = mbart.bind

        def wrong(c, tensors):
            w = right(c, tensors)
            return dataclasses.replace(w, encoder=change(w.encoder), decoder=change(w.decoder))

        monkeypatch.setattr(mbart, "bind", wrong)

    return plant


def without_final_norm(stack):
    """The last block's result goes through its own first norm once more."""
    return dataclasses.replace(stack, next_ln=(*stack.next_ln[:-1], stack.blocks[-1].ln_self))


def positions_begin_at_row_0(monkeypatch):
    """mBART's table has two rows that no position uses, left over from padding in fairseq."""
    right = mbart.bind

    def wrong(c, tensors):
        moved = {name: np.roll(t, 2, axis=0) for name, t in tensors.items() if name.endswith("embed_positions.weight")}
        return right(c, tensors | moved)

    monkeypatch.setattr(mbart, "bind", wrong)


def no_norm_behind_the_embeddings(monkeypatch):
    def wrong(ids_R, pos_R, stack, scale, ops):
        return ops.embed_norm(ids_R, pos_R, stack.wte_VD, stack.wpe_ND, scale, stack.blocks[0].ln_self)

    monkeypatch.setattr(mbart, "embed", wrong)


def residuals_are_normalised(monkeypatch):
    """Norms behind the sublayers, as BART has them."""
    right = mbart.residual_norm
    monkeypatch.setattr(mbart, "residual_norm", lambda *args: (right(*args)[1],) * 2)


def embedding_scale_forgotten(monkeypatch):
    right = mbart.bind
    monkeypatch.setattr(mbart, "bind", lambda c, t: dataclasses.replace(right(c, t), embedding_scale=1.0))


def logits_bias_dropped(monkeypatch):
    monkeypatch.setattr(activation, "add_bias", lambda x_RX, bias_X, out=None: x_RX)


class TestMBart(GoldenSuite):
    FOLDER = FOLDER

    @pytest.mark.parametrize(
        "plant",
        [with_weights(without_final_norm), positions_begin_at_row_0, no_norm_behind_the_embeddings,
         residuals_are_normalised],
        ids=["final norm", "positions", "norm of the embeddings", "norms behind"],
    )  # fmt: skip
    def test_a_mistake_of_mbart_breaks_the_bound(self, golden, plant, monkeypatch):
        plant(monkeypatch)
        assert golden.error(golden.load()) > golden.bound(FLOAT32)


@pytest.mark.parametrize(
    ("models", "plant"),
    [pytest.param(SCALED, embedding_scale_forgotten, id="scale"), pytest.param(BIASED, logits_bias_dropped, id="bias")],
)
def test_a_forgotten_part_breaks_the_bound_where_there_is_one(models, plant, monkeypatch):
    plant(monkeypatch)
    assert len(models) >= 8
    for golden in models:
        assert golden.error(golden.load()) > golden.bound(FLOAT32), golden.name


# ---- what the files cover --------------------------------------------------------------------------------------------


def test_the_models_cover_what_a_config_can_say():
    fields = [golden.fields() for golden in MODELS]
    assert len(fields) == 12
    assert {f.get("activation_function", "gelu") for f in fields} == {"gelu", "relu", "silu"}
    assert {f["scale_embedding"] for f in fields} == {True, False}
    assert {f.get("tie_word_embeddings", True) for f in fields} == {True, False}
    stored = [stored_tensors(golden.folder) for golden in MODELS]
    assert {t.dtype for tensors in stored for t in tensors.values()} == {"F32", "F16", "BF16"}
    assert any("encoder.layer_norm.weight" in names for names in stored), "without the prefix"


def test_each_call_may_say_the_first_token():
    """Into which language: mBART-50 has its code forced, the first mBART begins targets with it."""
    (golden,) = (g for g in MODELS if g.name == "defaults")
    firsts = {case["options"]["forced_bos_token_id"]: {tokens[0] for tokens in case["tokens"]}
              for case in golden.generation if "forced_bos_token_id" in case["options"]}  # fmt: skip
    assert len(firsts) == 4 and all(said == {code} for code, said in firsts.items())
    assert sum("decoder_start_token_id" in case["options"] for case in golden.generation) == 2


@pytest.mark.parametrize(
    ("changes", "say"),
    [({"normalize_before": False}, "normalize_before=False is another kind of model than mbart"),
     ({"add_final_layer_norm": False}, "add_final_layer_norm=False is another kind of model than mbart"),
     ({"static_position_embeddings": True}, "static_position_embeddings=True is another kind of model than mbart"),
     ({"activation_function": "gelu_7"}, "activation_function 'gelu_7' is not one of")],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(changes, say):
    with pytest.raises(md.CheckpointError, match=say):
        MBartConfig.from_json({"model_type": "mbart", "vocab_size": 37} | changes)
