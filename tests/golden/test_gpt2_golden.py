"""GPT-2 against numbers that transformers 5 computed: logits, greedy search and beam search.

tests/golden/make_gpt2.py remakes the numbers; golden_suite.py holds the tests that BART shares.
"""

from pathlib import Path

import pytest

pytest.register_assert_rewrite("golden_suite")

from golden_suite import Golden, GoldenSuite, check_options_covered, open_all, stored_tensors  # noqa: E402

FOLDER = Path(__file__).parent / "gpt2"
MODELS = open_all(FOLDER)


@pytest.fixture(scope="module", params=MODELS, ids=lambda golden: golden.name)
def golden(request) -> Golden:
    return request.param


class TestGPT2(GoldenSuite):
    FOLDER = FOLDER


# ---- what the files cover --------------------------------------------------------------------------------------------


def test_the_models_cover_what_a_config_can_say():
    fields = [golden.fields() for golden in MODELS]
    assert len(fields) >= 14
    assert {f.get("activation_function", "gelu_new") for f in fields} >= {"gelu", "gelu_new", "relu", "silu", "tanh"}
    assert {f["n_head"] for f in fields} == {1, 2, 3, 4, 5}
    assert {f["n_layer"] for f in fields} == {1, 2, 3, 4}
    assert {f.get("n_inner") is None for f in fields} == {True, False}
    for flag in ("scale_attn_weights", "scale_attn_by_inverse_layer_idx", "tie_word_embeddings"):
        assert {f.get(flag) for f in fields} - {None}, f"{flag} is never set"
    assert len({f.get("layer_norm_epsilon") for f in fields}) >= 4


def test_the_weights_are_stored_in_many_ways():
    dtypes, prefixed, sharded = set(), set(), 0
    for golden in MODELS:
        sharded += (golden.folder / "model.safetensors.index.json").exists()
        tensors = stored_tensors(golden.folder)
        dtypes |= {t.dtype for t in tensors.values()}
        prefixed |= {n.startswith("transformer.") for n in tensors if n != "lm_head.weight"}
    assert dtypes == {"F32", "F16", "BF16"} and prefixed == {True, False} and sharded


def test_the_generation_cases_cover_the_options():
    values = {"num_beams": (1, 2, 3, 4, 5), "length_penalty": (1.0, 0.0, 2.0, -1.0, 0.7),
              "early_stopping": (True, False, "never"), "no_repeat_ngram_size": (0, 2, 3),
              "num_return_sequences": (1, 2, 3), "eos ids": (0, 1, 2, 3)}  # fmt: skip
    lengths = dict.fromkeys(("min_length", "min_new_tokens", "max_length", "max_new_tokens"), 15)
    check_options_covered(FOLDER, values, lengths)
