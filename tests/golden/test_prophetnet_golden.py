"""ProphetNet against numbers that transformers 5 computed step by step: logits, greedy search and beam search.

tests/golden/make_prophetnet.py remakes the numbers; golden_suite.py holds the tests that the families share.
"""

import dataclasses
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.register_assert_rewrite("golden_suite")

from golden_suite import (  # noqa: E402
    Golden,
    GoldenSuite,
    gain_off_by_a_thousandth,
    open_all,
    scale_off_by_a_thousandth,
    stored_tensors,
)
from tolerance import FLOAT32  # noqa: E402

import minidecode as md  # noqa: E402
from minidecode.cache.queries import QueryCache, QueryRows  # noqa: E402
from minidecode.models import prophetnet  # noqa: E402
from minidecode.models.prophetnet import ProphetNetConfig  # noqa: E402

FOLDER = Path(__file__).parent / "prophetnet"
MODELS = open_all(FOLDER)
BY_NAME = {golden.name: golden for golden in MODELS}


@pytest.fixture(scope="module", params=MODELS, ids=lambda golden: golden.name)
def golden(request) -> Golden:
    return request.param


# ---- mistakes that the bound has to see ------------------------------------------------------------------------------


def with_weights(change):
    """A planted mistake: other weights."""

    def plant(monkeypatch):
        right = prophetnet.bind
        monkeypatch.setattr(prophetnet, "bind", lambda c, tensors: change(c, tensors, right(c, tensors)))

    return plant


def first_row_of_ngram_embeddings(c, tensors, w):
    """The stream furthest ahead, where there are several; FastSeq cuts the table so."""
    table = tensors["decoder.ngram_embeddings.weight"]
    return dataclasses.replace(w, query_ND=w.query_ND - table[-1] + table[0])


def positions_from_one_before(c, tensors, w):
    """The row that is the padding's, for the first token of a target."""
    table = tensors["decoder.position_embeddings.weight"]
    decoder = dataclasses.replace(w.decoder, wpe_ND=table[c.FIRST - 1 :])
    return dataclasses.replace(w, decoder=decoder)


def query_at_the_position_of_its_token(c, tensors, w):
    return dataclasses.replace(w, query_ND=w.decoder.wpe_ND + tensors["decoder.ngram_embeddings.weight"][-1])


def buckets_one_further(c, tensors, w):
    """Off by one distance."""
    return dataclasses.replace(w, bucket_L=np.append(w.bucket_L[1:], w.bucket_L[-1]))


def buckets_by_head_first(c, tensors, w):
    """The outputs of the biases as the file has them: bucket by bucket."""

    def unsorted(i, block):
        name = f"decoder.layers.{i}.{prophetnet.RELATIVE}"
        relative = dataclasses.replace(block.relative, data=tensors[f"{name}.weight"], bias=tensors[f"{name}.bias"])
        return dataclasses.replace(block, relative=relative)

    blocks = tuple(unsorted(i, block) for i, block in enumerate(w.decoder.blocks))
    return dataclasses.replace(w, decoder=dataclasses.replace(w.decoder, blocks=blocks))


def query_distances_of_the_token(monkeypatch):
    """A query row counts distances from its token, and not from its own position: every bucket is one too near."""
    right = QueryCache._heads_with_bias

    def wrong(self, ops, bias, rows_X):
        if bias is not None and len(rows_X) and rows_X is self.query_X:
            bias = dataclasses.replace(bias, bucket_L=np.append(bias.bucket_L[:1], bias.bucket_L[:-1]))
        return right(self, ops, bias, rows_X)

    monkeypatch.setattr(QueryCache, "_heads_with_bias", wrong)


def bias_of_the_token(monkeypatch):
    """A query row gets the bias of its token's row; transformers mixes them up in another way."""
    right = QueryCache._heads_with_bias
    monkeypatch.setattr(
        QueryCache, "_heads_with_bias", lambda self, ops, bias, rows_X: right(self, ops, bias, self.kept_X)
    )


def with_keys(change):
    """A planted mistake: each query row sees what `change` leaves of its keys, newest first."""

    def plant(monkeypatch):
        right = QueryRows.for_sentences.__func__

        def wrong(cls, *args):
            rows = right(cls, *args)
            parts = [change(rows.seen_X[a:b]) for a, b in pairwise(rows.ends)]
            ends = (0, *np.cumsum([len(part) for part in parts]).tolist())
            return dataclasses.replace(rows, seen_X=np.concatenate(parts), ends=ends)

        monkeypatch.setattr(QueryRows, "for_sentences", classmethod(wrong))

    return plant


sees_no_first_token = with_keys(lambda seen_X: seen_X[:-1] if len(seen_X) > 2 else seen_X)
sees_not_itself = with_keys(lambda seen_X: seen_X[1:])

MISTAKES = {
    "first ngram row": with_weights(first_row_of_ngram_embeddings),
    "positions from one before": with_weights(positions_from_one_before),
    "query at its token's position": with_weights(query_at_the_position_of_its_token),
    "buckets one further": with_weights(buckets_one_further),
    "buckets by head first": with_weights(buckets_by_head_first),
    "distances of the token": query_distances_of_the_token,
    "bias of the token": bias_of_the_token,
    "sees not itself": sees_not_itself,
}


class TestProphetNet(GoldenSuite):
    FOLDER = FOLDER

    @pytest.mark.parametrize("plant", [scale_off_by_a_thousandth, sees_no_first_token, gain_off_by_a_thousandth])
    def test_a_planted_mistake_breaks_the_bound(self, golden, plant, monkeypatch):
        super().test_a_planted_mistake_breaks_the_bound(golden, plant, monkeypatch)

    @pytest.mark.parametrize("mistake", MISTAKES)
    def test_a_mistake_of_its_own_breaks_the_bound(self, mistake, monkeypatch):
        """In a model that looks three tokens ahead."""
        golden = BY_NAME["three-ahead"]
        MISTAKES[mistake](monkeypatch)
        assert golden.error(golden.load()) > golden.bound(FLOAT32)


def test_main_rows_of_the_last_layer_go_no_further_than_keys_and_values(monkeypatch):
    """As many rows as are asked for leave the last layer's attention; those before have two a token."""
    golden = BY_NAME["two-ahead"]
    seen, right = [], prophetnet.feed_forward
    monkeypatch.setattr(prophetnet, "feed_forward", lambda x_RD, *more: seen.append(len(x_RD)) or right(x_RD, *more))
    golden.load().logits([[3, 4]], None, [[2, 5, 6]])
    assert seen == [6, 3]


# ---- what the files cover --------------------------------------------------------------------------------------------


def test_the_models_cover_what_a_config_can_say():
    fields = [golden.fields() for golden in MODELS]
    assert len(fields) == 12 and {f["activation_function"] for f in fields if "activation_function" in f} == {
        "relu", "silu"
    }  # fmt: skip
    assert {f["ngram"] for f in fields} == {1, 2, 3}
    assert any(f["num_encoder_attention_heads"] != f["num_decoder_attention_heads"] for f in fields)
    farthest = [max(map(len, golden.logit_targets)) > golden.config.relative_max_distance for golden in MODELS]
    assert sum(farthest) > 8
    stored = [stored_tensors(golden.folder) for golden in MODELS]
    assert sum("lm_head.weight" in names for names in stored) == 2
    assert {t.dtype for tensors in stored for t in tensors.values()} == {"F32", "F16", "BF16"}


def test_a_target_as_long_as_there_are_positions():
    """One position less than a source may have: the query row behind the last token needs one too."""
    for golden in MODELS:
        c = golden.config
        assert c.source_context == c.context + 1 == max(map(len, golden.logit_prompts))
        assert c.context == max(map(len, golden.logit_targets))
        with pytest.raises(md.InputError, match="context holds"):
            golden.load().logits([[3]], None, [[2] * (c.context + 1)])


@pytest.mark.parametrize(
    ("buckets", "farthest", "bucket_of"),
    [(32, 128, {15: 15, 16: 16, 18: 16, 19: 17, 127: 31, 128: 31}),
     (8, 12, {3: 3, 4: 4, 5: 4, 6: 5, 9: 6, 10: 7, 12: 7}),
     (9, 128, {7: 4, 8: 5, 16: 6, 64: 8})],
)  # fmt: skip
def test_buckets(buckets, farthest, bucket_of):
    """Recorded from transformers 5."""
    c = ProphetNetConfig(num_buckets=buckets, relative_max_distance=farthest)
    assert {d: int(c.bucket_of_distance()[d]) for d in bucket_of} == bucket_of


@pytest.mark.parametrize(
    ("changes", "say"),
    [({"add_cross_attention": False}, "add_cross_attention=False, a decoder alone, is not supported: use a ProphetNet"),
     ({"num_buckets": 1}, "num_buckets 1 must be at least 2, and less than twice relative_max_distance 128"),
     ({"relative_max_distance": 16}, "less than twice relative_max_distance 16"),
     ({"pad_token_id": 1}, "pad_token_id=1 is not supported: ProphetNet's is 0"),
     ({"max_position_embeddings": 2}, "max_position_embeddings 2 must be at least 3"),
     ({"hidden_size": 1000, "num_decoder_attention_heads": 16}, "hidden_size 1000 is not a multiple of num_encoder"),
     ({"ngram": 0}, "ngram must be an integer from 1"),
     ({"activation_function": "gelu_7"}, "activation_function 'gelu_7' is not one of")],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(changes, say):
    with pytest.raises(md.CheckpointError, match=say):
        ProphetNetConfig.from_json({"model_type": "prophetnet"} | changes)
