"""T5, mT5 and UMT5 against numbers that transformers 5 computed: logits, greedy search and beam search.

tests/golden/make_t5.py remakes the numbers; golden_suite.py holds the tests that GPT-2 and BART share.
"""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

pytest.register_assert_rewrite("golden_suite")

from golden_suite import Golden, GoldenSuite, open_all  # noqa: E402
from tolerance import FLOAT32  # noqa: E402

import minidecode as md  # noqa: E402
from minidecode.models.t5 import T5Config  # noqa: E402
from minidecode.ops import Heads  # noqa: E402
from minidecode.reference import prefill  # noqa: E402

FOLDER = Path(__file__).parent / "t5"
MODELS = open_all(FOLDER)
BY_NAME = {golden.name: golden for golden in MODELS}


@pytest.fixture(scope="module", params=MODELS, ids=lambda golden: golden.name)
def golden(request) -> Golden:
    return request.param


# ---- mistakes that the bound has to see ------------------------------------------------------------------------------


def with_another_bias(change):
    """A planted mistake: attention gets what `change` makes of its position bias and its arguments."""

    def plant(monkeypatch):
        right = prefill.attend_prefill

        def wrong(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
            bias = bias and change(bias, q_RHK)
            return right(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window, bias, out)

        monkeypatch.setattr(prefill, "attend_prefill", wrong)

    return plant


def with_buckets(change):
    """A planted mistake: other buckets of distances."""

    def plant(monkeypatch):
        right = T5Config.bucket_of_distance
        monkeypatch.setattr(T5Config, "bucket_of_distance", lambda c, two_sided: change(c, *right(c, two_sided)))

    return plant


def first_far_distance_too_near(c, bucket_L, zero):
    """Off by one where buckets stop to be one distance each: at 16 of T5's 128."""
    own = max(d for d in range(zero, len(bucket_L)) if bucket_L[d] == d - zero) - zero
    bucket_L = bucket_L.copy()
    bucket_L[zero + own] -= 1
    return bucket_L, zero


def last_bucket_never(c, bucket_L, zero):
    """Off by one at the largest distance: at 128."""
    last = bucket_L[-1]
    return np.where(bucket_L == last, last - 1, bucket_L), zero


def bias_on_cross_attention(monkeypatch):
    right = prefill.attend_prefill
    seen = []

    def wrong(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
        seen.append(bias)
        bias = bias or next(b for b in reversed(seen) if b)
        return right(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window, bias, out)

    monkeypatch.setattr(prefill, "attend_prefill", wrong)


def scores_are_scaled(monkeypatch):
    right = T5Config.heads

    def wrong(c, H, scaled=False, window=None) -> Heads:
        return right(c, H, True, window)

    monkeypatch.setattr(T5Config, "heads", wrong)


MISTAKES = {
    "wrong sign": with_another_bias(lambda b, q: dataclasses.replace(b, bias_XHP=-b.bias_XHP)),
    "key minus query": with_another_bias(lambda b, q: dataclasses.replace(b, bucket_L=b.bucket_L[::-1].copy())),
    "bias scaled": with_another_bias(
        lambda b, q: dataclasses.replace(b, bias_XHP=b.bias_XHP * q.dtype.type(q.shape[2] ** -0.5))
    ),
    "one position further": with_another_bias(lambda b, q: dataclasses.replace(b, zero=b.zero + 1)),
    "off by one at 16": with_buckets(first_far_distance_too_near),
    "off by one at 128": with_buckets(last_bucket_never),
    "on cross attention": bias_on_cross_attention,
    "scores scaled": scores_are_scaled,
}


class TestT5(GoldenSuite):
    FOLDER = FOLDER

    @pytest.mark.parametrize("mistake", MISTAKES)
    def test_a_mistake_of_position_biases_breaks_the_bound(self, mistake, monkeypatch):
        golden = BY_NAME["relu"]
        MISTAKES[mistake](monkeypatch)
        assert golden.error(golden.load()) > golden.bound(FLOAT32)

    @pytest.mark.parametrize("name", ["relu", "gated-tied", "gated-untied", "mt5", "written-by-5"])
    def test_the_scale_of_logits(self, name, monkeypatch):
        """Scaled where the table is the head, and nowhere else: the other way breaks the bound."""
        golden = BY_NAME[name]
        D = golden.config.d_model
        was = golden.config.logit_scale
        assert was == (D**-0.5 if name in ("relu", "gated-tied") else 1.0)
        monkeypatch.setattr(T5Config, "logit_scale", D**-0.5 if was == 1.0 else 1.0)
        assert golden.error(golden.load()) > golden.bound(FLOAT32)


def test_umt5_has_a_table_for_each_block(monkeypatch):
    golden = BY_NAME["umt5"]
    model = golden.load()
    first = model.weights.blocks[0].heads
    blocks = tuple(dataclasses.replace(block, heads=first) for block in model.weights.blocks)
    decoder = dataclasses.replace(model.weights.decoder, blocks=blocks)
    model.weights = dataclasses.replace(model.weights, decoder=decoder)
    assert golden.error(model) > golden.bound(FLOAT32)


@pytest.fixture
def tied_mt5(tmp_path):
    """Makes the folder of a tied mT5 whose config.json says that much more."""

    def make(**more):
        golden = BY_NAME["gated-tied"]
        for file in golden.folder.iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        fields = json.loads((golden.folder / "config.json").read_text(encoding="utf-8"))
        fields = {name: value for name, value in fields.items() if name != "transformers_version"}
        (tmp_path / "config.json").write_text(json.dumps(fields | {"model_type": "mt5"} | more), encoding="utf-8")
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("more", "scaled"),
    [({"transformers_version": "4.57.6"}, True), ({"transformers_version": "5.24.0"}, False),
     ({"transformers_version": "5.0.0.dev0"}, False), ({"transformers_version": "3.5.1"}, True),
     ({"scale_decoder_outputs": True}, True), ({"scale_decoder_outputs": False}, False),
     ({"scale_decoder_outputs": True, "transformers_version": "5.24.0"}, True)],
)  # fmt: skip
def test_the_version_that_wrote_a_tied_mt5_decides_whether_its_logits_are_scaled(tied_mt5, more, scaled):
    """transformers 4 scales them and transformers 5 does not; the head is a product, so they differ by the factor."""
    golden, model = BY_NAME["gated-tied"], md.load(tied_mt5(**more))
    ids = {"input_ids": [[3, 5, 7]], "decoder_input_ids": [[0, 4]]}
    wanted, found = (np.asarray(m.logits(**ids)[0]) for m in (golden.load(), model))
    assert np.allclose(wanted, found * (1.0 if scaled else golden.config.d_model**-0.5), atol=1e-5)


@pytest.mark.parametrize("more", [{}, {"transformers_version": None}, {"transformers_version": "new"}])
def test_a_tied_mt5_of_no_version_must_say_whether_its_logits_are_scaled(tied_mt5, more):
    with pytest.raises(md.CheckpointError, match="no transformers_version: set scale_decoder_outputs to true or false"):
        md.load(tied_mt5(**more))


@pytest.mark.parametrize("name", ["relu", "gated-untied", "umt5"])
def test_buckets_are_those_of_the_equation(name):
    """d = key - query; a far distance's bucket is where ln(a / e) has come on its way to ln(largest / e)."""
    c = BY_NAME[name].config
    buckets, farthest = c.relative_attention_num_buckets, c.relative_attention_max_distance
    for two_sided in (True, False):
        bucket_L, zero = c.bucket_of_distance(two_sided)
        for d in range(-40, 40):
            n, base, a = buckets, 0, max(-d, 0)
            if two_sided:
                n, base, a = buckets // 2, buckets // 2 if d > 0 else 0, abs(d)
            e = n // 2
            grown = e if a == 0 else e + int(np.floor(np.log(a / e) / np.log(farthest / e) * (n - e)))
            assert bucket_L[min(max(zero - d, 0), len(bucket_L) - 1)] == base + (a if a < e else min(grown, n - 1))


@pytest.mark.parametrize(
    ("buckets", "farthest", "two_sided", "bucket_of"),
    [(9, 128, False, {7: 4, 8: 5, 15: 5, 16: 6, 63: 7, 64: 8}),
     (18, 128, True, {15: 5, 16: 6, 63: 7, 64: 8, -8: 14, -16: 15}),
     (19, 128, True, {15: 5, 16: 6, 63: 7, 64: 8}),
     (72, 625, False, {149: 53, 150: 53})],
)  # fmt: skip
def test_buckets_that_rounding_decides_are_transformers(buckets, farthest, two_sided, bucket_of):
    """Where a bucket begins at a whole distance: float64's logarithm misses it. Recorded from transformers 5."""
    c = T5Config(relative_attention_num_buckets=buckets, relative_attention_max_distance=farthest)
    bucket_L, zero = c.bucket_of_distance(two_sided)
    assert {d: int(bucket_L[d + zero]) for d in bucket_of} == bucket_of


def test_an_alias_takes_the_place_of_a_default_of_mt5():
    c = T5Config.from_json({"model_type": "mt5", "num_hidden_layers": 3, "num_attention_heads": 5})
    assert (c.num_layers, c.num_heads, c.d_ff, c.vocab_size) == (3, 5, 1024, 250112)
