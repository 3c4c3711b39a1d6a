"""BART against numbers that transformers 5 computed: logits, greedy search and beam search.

tests/golden/make_bart.py remakes the numbers; golden_suite.py holds the tests that GPT-2 shares.
"""

import dataclasses
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.register_assert_rewrite("golden_suite")

from golden_suite import Golden, GoldenSuite, check_options_covered, eos_ids, open_all, stored_tensors  # noqa: E402
from tolerance import FLOAT32  # noqa: E402

from minidecode.models import bart  # noqa: E402
from minidecode.reference import activation, prefill  # noqa: E402

FOLDER = Path(__file__).parent / "bart"
MODELS = open_all(FOLDER)
SCALED = [golden for golden in MODELS if golden.fields().get("scale_embedding")]
BIASED = [golden for golden in MODELS if "final_logits_bias" in stored_tensors(golden.folder)]


@pytest.fixture(scope="module", params=MODELS, ids=lambda golden: golden.name)
def golden(request) -> Golden:
    return request.param


# ---- mistakes that the bound has to see ------------------------------------------------------------------------------


def cross_attention_reads_a_padded_position(monkeypatch):
    """Each source seems one token longer: a position of zeros, which is what padding a cache puts there."""
    right = prefill.attend_prefill

    def wrong(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
        if k_offsets_X is not q_offsets_X:
            k_XGK, v_XGU = (np.insert(rows, k_offsets_X[1:], 0.0, axis=0) for rows in (k_XGK, v_XGU))
            k_offsets_X = k_offsets_X + np.arange(len(k_offsets_X))
        return right(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window, bias, out)

    monkeypatch.setattr(prefill, "attend_prefill", wrong)


def encoder_is_causal(monkeypatch):
    right = prefill.attend_prefill

    def wrong(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
        causal = causal or k_offsets_X is q_offsets_X
        return right(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window, bias, out)

    monkeypatch.setattr(prefill, "attend_prefill", wrong)


def positions_begin_at_row_0(monkeypatch):
    """BART's table has two rows that no position uses, left over from padding in fairseq."""
    right = bart.bind

    def wrong(config, tensors):
        moved = {name: np.roll(t, 2, axis=0) for name, t in tensors.items() if name.endswith("embed_positions.weight")}
        return right(config, tensors | moved)

    monkeypatch.setattr(bart, "bind", wrong)


def embedding_scale_forgotten(monkeypatch):
    right = bart.bind
    monkeypatch.setattr(
        bart, "bind", lambda config, tensors: dataclasses.replace(right(config, tensors), embedding_scale=1.0)
    )


def logits_bias_dropped(monkeypatch):
    monkeypatch.setattr(activation, "add_bias", lambda x_RX, bias_X, out=None: x_RX)


class TestBART(GoldenSuite):
    FOLDER = FOLDER

    @pytest.mark.parametrize(
        "plant", [cross_attention_reads_a_padded_position, encoder_is_causal, positions_begin_at_row_0]
    )
    def test_a_mistake_of_encoder_decoder_models_breaks_the_bound(self, golden, plant, monkeypatch):
        plant(monkeypatch)
        assert golden.error(golden.load()) > golden.bound(FLOAT32)


@pytest.mark.parametrize(
    "models, plant",
    [pytest.param(SCALED, embedding_scale_forgotten, id="scale"), pytest.param(BIASED, logits_bias_dropped, id="bias")],
)
def test_a_forgotten_part_breaks_the_bound_where_there_is_one(models, plant, monkeypatch):
    plant(monkeypatch)
    assert len(models) >= 4
    for golden in models:
        assert golden.error(golden.load()) > golden.bound(FLOAT32), golden.name


# ---- what the files cover --------------------------------------------------------------------------------------------


def test_the_models_cover_what_a_config_can_say():
    fields = [golden.fields() for golden in MODELS]
    assert len(fields) >= 14
    # Compared with their equations in tests/properties/test_ops.py, not with files made by transformers:
    by_properties = {"gelu_fast", "quick_gelu", "gelu_10", "gelu_python", "laplace", "linear", "mish", "relu2"}
    assert {f.get("activation_function", "gelu") for f in fields} == set(activation.ACTIVATIONS) - by_properties
    for side in ("encoder", "decoder"):
        assert {f[f"{side}_layers"] for f in fields} >= {1, 2, 3}
        assert len({f[f"{side}_attention_heads"] for f in fields}) >= 4
    for size in ("layers", "attention_heads", "ffn_dim"):
        assert sum(f[f"encoder_{size}"] != f[f"decoder_{size}"] for f in fields) >= 7, f"{size} of the two stacks"
    assert any(f["encoder_layers"] == 3 and f["decoder_layers"] == 1 for f in fields), "as DistilBART"
    assert sum(f["decoder_start_token_id"] != f["eos_token_id"] for f in fields) >= 3
    ties = {(f.get("tie_word_embeddings", True), f.get("scale_embedding", False)) for f in fields}
    assert ties == {(True, True), (True, False), (False, True), (False, False)}


def test_the_weights_are_stored_in_many_ways():
    dtypes, names, sharded, lists = set(), set(), 0, []
    for golden in MODELS:
        sharded += (golden.folder / "model.safetensors.index.json").exists()
        tensors = stored_tensors(golden.folder)
        dtypes |= {t.dtype for t in tensors.values()}
        if golden.fields().get("tie_word_embeddings", True):
            lists.append(tensors.keys())
        names |= tensors.keys()
    assert dtypes == {"F32", "F16", "BF16"} and sharded >= 2
    copies = {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"}
    assert any(copies < stored for stored in lists), "copies of the tied matrix"
    assert any(copies & stored and "model.shared.weight" not in stored for stored in lists), "a copy in its stead"
    assert {"shared.weight", "model.shared.weight", "model.encoder.version"} <= names
    assert 4 <= len(BIASED) <= len(MODELS) - 4


def test_the_generation_cases_cover_the_options():
    values = {"num_beams": (1, 2, 3, 4, 5), "length_penalty": (1.0, 0.0, 2.0, -1.0, 0.7),
              "early_stopping": (True, False, "never"), "no_repeat_ngram_size": (0, 2, 3),
              "num_return_sequences": (1, 2, 3), "eos ids": (0, 1, 2, 3)}  # fmt: skip
    lengths = {"min_length": 15, "min_new_tokens": 15, "max_length": 15, "max_new_tokens": 15,
               "forced_bos_token_id": 30, "forced_eos_token_id": 30, "decoder_start_token_id": 30}  # fmt: skip
    check_options_covered(FOLDER, values, lengths)


def test_forced_tokens_come_first_and_last():
    """Both kinds of forced EOS: one that ends a text wherever it stands, and one that only comes at the limit."""
    at_limit, lists = {True: 0, False: 0}, 0
    for golden in MODELS:
        for case in golden.generation:
            options = case["options"]
            if "forced_bos_token_id" in options:
                assert all(tokens[0] == options["forced_bos_token_id"] for tokens in case["tokens"])
            if "forced_eos_token_id" in options and "eos_token_id" in options:
                limit = options["max_new_tokens"] if "max_new_tokens" in options else options["max_length"] - 1
                forced = np.atleast_1d(options["forced_eos_token_id"]).tolist()
                ends = [tokens[-1] for tokens in case["tokens"] if len(tokens) == limit]
                assert set(ends) <= set(forced)
                lists += len(forced) > 1
                at_limit[set(forced) <= set(eos_ids(options))] += len(ends)
    assert min(at_limit.values()) >= 10 and lists >= 2, (at_limit, lists)


def test_sources_and_targets_of_the_logits_are_of_mixed_lengths():
    for golden in MODELS:
        for rows in (golden.logit_prompts, golden.logit_targets):
            assert len({len(row) for row in rows}) == len(rows) and min(map(len, rows)) == 1
            assert max(map(len, rows)) == golden.fields()["max_position_embeddings"]
        assert all(a[0] == b[0] for a, b in pairwise(golden.logit_targets))
