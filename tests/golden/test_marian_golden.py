"""Marian against numbers that transformers 5 computed: logits, greedy search and beam search.

tests/golden/make_marian.py remakes the numbers; golden_suite.py holds the tests that the families share.
"""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

pytest.register_assert_rewrite("golden_suite")

from golden_suite import (  # noqa: E402
    Golden,
    GoldenSuite,
    last_position_sees_no_first_key,
    open_all,
    scale_off_by_a_thousandth,
    stored_tensors,
)
from tolerance import FLOAT32  # noqa: E402

import minidecode as md  # noqa: E402
from minidecode.models import bart, marian  # noqa: E402
from minidecode.models.config import make_sinusoid_table  # noqa: E402
from minidecode.models.marian import MarianConfig  # noqa: E402
from minidecode.reference import activation  # noqa: E402

FOLDER = Path(__file__).parent / "marian"
MODELS = open_all(FOLDER)
BY_NAME = {golden.name: golden for golden in MODELS}
SCALED = [golden for golden in MODELS if golden.fields()["scale_embedding"]]
BIASED = [golden for golden in MODELS if "final_logits_bias" in stored_tensors(golden.folder)]


@pytest.fixture(scope="module", params=MODELS, ids=lambda golden: golden.name)
def golden(request) -> Golden:
    return request.param


# ---- mistakes that the bound has to see ------------------------------------------------------------------------------


def with_positions(change):
    """A planted mistake: another table of positions."""

    def plant(monkeypatch):
        right = MarianConfig.sinusoids
        monkeypatch.setattr(MarianConfig, "sinusoids", lambda c: change(c, right(c)))

    return plant


def interleaved(c, wpe_ND):
    """sin, cos, sin, cos, ... as in the paper of the Transformer."""
    mixed_ND = np.empty_like(wpe_ND)
    mixed_ND[:, 0::2], mixed_ND[:, 1::2] = np.split(wpe_ND, [(c.width + 1) // 2], axis=1)
    return mixed_ND


def one_position_further(c, wpe_ND):
    """From position 1, not 0."""
    frequency_X = 10000.0 ** (-2 * np.arange((c.width + 1) // 2) / c.width)
    return make_sinusoid_table(1, c.context, frequency_X, 2 * frequency_X.size)[:, : c.width]


def frequencies_of_fairseq(c, wpe_ND):
    """10000^(-i / (D/2 - 1)) in place of 10000^(-2i/D)."""
    half = (c.width + 1) // 2
    frequency_X = 10000.0 ** (-np.arange(half) / (half - 1))
    return make_sinusoid_table(0, c.context, frequency_X, 2 * half)[:, : c.width]


def norm_behind_the_embeddings(monkeypatch):
    def wrong(ids_R, pos_R, stack, scale, ops):
        norm = stack.blocks[0].ln_self
        return ops.embed_norm(ids_R, pos_R, stack.wte_VD, stack.wpe_ND, scale, norm)[1]

    monkeypatch.setattr(bart, "embed", wrong)


def embeddings_off_by_a_thousandth(monkeypatch):
    right = bart.embed
    monkeypatch.setattr(bart, "embed", lambda *args: 1.001 * right(*args))


def embedding_scale_forgotten(monkeypatch):
    right = marian.bind
    monkeypatch.setattr(marian, "bind", lambda c, t: dataclasses.replace(right(c, t), embedding_scale=1.0))


def logits_bias_dropped(monkeypatch):
    monkeypatch.setattr(activation, "add_bias", lambda x_RX, bias_X, out=None: x_RX)


class TestMarian(GoldenSuite):
    FOLDER = FOLDER

    @pytest.mark.parametrize(
        "plant", [scale_off_by_a_thousandth, last_position_sees_no_first_key, embeddings_off_by_a_thousandth]
    )
    def test_a_planted_mistake_breaks_the_bound(self, golden, plant, monkeypatch):
        super().test_a_planted_mistake_breaks_the_bound(golden, plant, monkeypatch)

    @pytest.mark.parametrize("change", [interleaved, one_position_further, frequencies_of_fairseq])
    def test_other_positions_break_the_bound(self, golden, change, monkeypatch):
        with_positions(change)(monkeypatch)
        assert golden.error(golden.load()) > golden.bound(FLOAT32)

    def test_a_norm_behind_the_embeddings_breaks_the_bound(self, golden, monkeypatch):
        norm_behind_the_embeddings(monkeypatch)
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


# ---- the padding -----------------------------------------------------------------------------------------------------


def test_the_padding_has_no_row_in_the_head_where_it_is_the_last_token():
    for golden in MODELS:
        c, weights = golden.config, golden.load().weights
        rows, bias = weights.lm_head.data.shape[0], weights.lm_head.bias
        expected = c.vocab_size - (golden.fields()["pad_token_id"] == c.vocab_size - 1)
        assert rows == len(bias) == c.generated_vocab_size == expected
        assert weights.decoder.wte_VD.shape[0] == c.vocab_size, "targets begin with it"
    assert BY_NAME["two-vocabularies"].config.generated_vocab_size == 43, "its padding is 36 of 43"


def test_bans_of_the_padding_are_met_already():
    """A published generation_config.json bans it, and other options may name it too."""
    golden = BY_NAME["published"]
    model, pad = golden.load(), golden.config.vocab_size - 1
    plain = {"input_ids": [[3, 4, 0]], "num_beams": 3, "max_new_tokens": 5}
    bans = {"bad_words_ids": [[pad], [4, pad]], "suppress_tokens": [pad], "begin_suppress_tokens": [pad],
            "sequence_bias": [([pad], 2.0)]}  # fmt: skip
    expected = [ids.tolist() for ids in model.generate(**plain).token_ids]
    for name, value in bans.items():
        found = model.generate(**plain, **{name: value})
        assert [ids.tolist() for ids in found.token_ids] == expected, name
    fairseq = model.generate(**plain, dialect="fairseq", pad_token_id=pad)
    assert pad not in fairseq.token_ids[0]


def test_a_padding_that_would_have_to_be_generated_is_an_error():
    golden = BY_NAME["published"]
    model, pad = golden.load(), golden.config.vocab_size - 1
    for name in ("forced_bos_token_id", "forced_eos_token_id"):
        with pytest.raises(md.OptionError, match=f"{name} {pad} is a token that this model never generates"):
            model.generate(input_ids=[[3, 0]], max_new_tokens=3, **{name: pad})
    with pytest.raises(md.InputError, match=f"prefix_tokens: {pad} is neither in the vocabulary of {pad} tokens"):
        model.generate(input_ids=[[3, 0]], prefix_tokens=[[pad]], max_new_tokens=3)


# ---- what the files cover --------------------------------------------------------------------------------------------


def test_the_models_cover_what_a_config_can_say():
    fields = [golden.fields() for golden in MODELS]
    assert len(fields) == 12
    assert {f["activation_function"] for f in fields} == {"swish", "relu", "gelu"}
    assert {f["scale_embedding"] for f in fields} == {True, False}
    shared = {(f.get("share_encoder_decoder_embeddings", True), f.get("tie_word_embeddings", True)) for f in fields}
    assert {(True, True), (False, True), (True, False)} == shared
    assert any(f["d_model"] % 2 for f in fields) and any("decoder_vocab_size" in f for f in fields)
    stored = [stored_tensors(golden.folder) for golden in MODELS]
    assert sum("model.encoder.embed_positions.weight" in names for names in stored) == 1
    assert {t.dtype for tensors in stored for t in tensors.values()} == {"F32", "F16", "BF16"}


@pytest.mark.parametrize(
    ("changes", "say"),
    [({"normalize_before": True}, "normalize_before=True is another kind of model than marian"),
     ({"normalize_embedding": True}, "normalize_embedding=True is another kind of model than marian"),
     ({"decoder_vocab_size": 30}, "needs one vocabulary, and vocab_size is 37 and decoder_vocab_size 30"),
     ({"decoder_vocab_size": "x", "share_encoder_decoder_embeddings": False}, "vocab_size must be an integer"),
     ({"share_encoder_decoder_embeddings": 1}, "share_encoder_decoder_embeddings must be true or false, not 1"),
     ({"activation_function": "gelu_7"}, "activation_function 'gelu_7' is not one of")],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(changes, say):
    with pytest.raises(md.CheckpointError, match=say):
        MarianConfig.from_json({"model_type": "marian", "vocab_size": 37} | changes)
