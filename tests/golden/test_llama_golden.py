"""Llama and its like against numbers that transformers 5 computed: logits, greedy search and beam search.

tests/golden/make_llama.py remakes the numbers; golden_suite.py holds the tests that the families share.
"""

from pathlib import Path

import numpy as np
import pytest
from gguf_writer import permuted_rows, tokenizer_settings, write_qwen2
from safetensors.numpy import load_file
from tolerance import FLOAT32

import minidecode as md
from minidecode.files.gguf_folder import convert_gguf
from minidecode.models import llama

pytest.register_assert_rewrite("golden_suite")

from golden_suite import Golden, GoldenSuite, open_all  # noqa: E402

FOLDER = Path(__file__).parent / "llama"
MODELS = open_all(FOLDER)
BY_NAME = {golden.name: golden for golden in MODELS}
PLANS = tuple(f"cache={m}" for m in ("replicated", "none", "preallocated", "split", "indirect"))


@pytest.fixture(scope="module", params=MODELS, ids=lambda golden: golden.name)
def golden(request) -> Golden:
    return request.param


class TestLlama(GoldenSuite):
    FOLDER = FOLDER

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("plan", PLANS)
    def test_generation(self, golden, plan, dtype):
        super().test_generation(golden, plan, dtype)

    @pytest.mark.parametrize("plan", PLANS)
    def test_each_sentence_alone(self, golden, plan):
        super().test_each_sentence_alone(golden, plan)


def test_a_rolling_cache_under_a_window():
    (golden,) = (g for g in MODELS if g.name == "mistral")
    TestLlama().test_generation(golden, "cache=rolling", "float32")


def test_el_is_refused_with_the_reason(golden):
    with pytest.raises(md.OptionError, match=r"rotates its keys by their positions \(RoPE\).*cache=split, which also"):
        golden.load().generate(input_ids=[[3, 4]], plan="cache=el", max_new_tokens=2)


def test_rotation_has_no_effect_on_a_model_that_is_not_rotary():
    with pytest.raises(md.OptionError, match="rotation=naive has no effect in a model that is not rotary"):
        md.load("tiny-gpt2").generate(input_ids=[[3, 4]], plan="rotation=naive", max_new_tokens=2)


def test_the_models_cover_what_a_config_can_say():
    fields = [golden.fields() for golden in MODELS]
    assert len(fields) == 12
    assert {f["model_type"] for f in fields} == {"llama", "qwen2", "mistral"}
    assert {f["tie_word_embeddings"] for f in fields} == {True, False}
    ropes = [f.get("rope_scaling") or f.get("rope_parameters") or {"type": "default"} for f in fields]
    assert {r.get("rope_type", r.get("type")) for r in ropes} == {"default", "linear", "llama3"}
    assert any("rope_parameters" in f for f in fields) and any(f.get("mlp_bias") for f in fields)
    heads = {(f["num_attention_heads"], f["num_key_value_heads"], f.get("head_dim")) for f in fields}
    assert {(4, 1, None), (6, 2, 8), (4, 2, 10)} <= heads


def test_a_gguf_file_of_qwen2_gives_these_logits(tmp_path, monkeypatch):
    """Its rows lie there as they do here; taken for a Llama's, which are permuted there, they give others."""
    pytest.importorskip("gguf", reason="needs the extra gguf")
    golden = BY_NAME["qwen2"]
    stored = load_file(golden.folder / "model.safetensors")
    tensors = {name.removeprefix("model."): tensor for name, tensor in stored.items()}
    few = {"tokenizer.ggml.tokens": ["a", "b", "ab"], "tokenizer.ggml.merges": ["a b"],
           "tokenizer.ggml.token_type": np.ones(3, np.int32)} | dict.fromkeys(
           (f"tokenizer.ggml.{role}_token_id" for role in ("bos", "eos", "padding")), 1)  # fmt: skip
    write_qwen2(file := tmp_path / "golden.gguf", golden.fields(), tensors, tokenizer_settings() | few)
    convert_gguf(file, tmp_path / "right")
    assert golden.error(md.load(tmp_path / "right")) <= golden.bound(FLOAT32)
    permuted_rows(monkeypatch)
    convert_gguf(file, tmp_path / "mutant")
    assert golden.error(md.load(tmp_path / "mutant")) > 32 * golden.bound(FLOAT32)


@pytest.mark.parametrize(
    ("changes", "say"),
    [({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "rope_type 'yarn' is not supported: default, linear,"),
     ({"rope_scaling": {"rope_type": "linear"}}, "factor must be a number above 0, not None"),
     ({"rope_scaling": {"rope_type": "llama3", "factor": 8}}, "low_freq_factor must be a number above 0, not None"),
     ({"rope_scaling": [1]}, "rope_scaling must be an object"),
     ({"rope_parameters": {"rope_theta": 100.0, "partial_rotary_factor": 0.5}}, "partial_rotary_factor is not supp"),
     ({"rope_theta": -1.0}, "rope_theta must be a number above 1, not -1.0"),
     ({"head_dim": 5}, "head_dim 5 is odd"),
     ({"max_position_embeddings": 2**31 - 1}, "max_position_embeddings 2,147,483,647 needs a table of 48.0 GB: set it"),
     ({"num_key_value_heads": 3}, "num_attention_heads 4 is not a multiple of num_key_value_heads 3"),
     ({"hidden_act": "gelu_7"}, "activation_function 'gelu_7' is not one of"),
     ({"model_type": "qwen2", "use_sliding_window": True}, "use_sliding_window, a window in some layers alone,")],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(changes, say):
    from minidecode.models.llama import LlamaConfig

    fields = {"model_type": "llama", "hidden_size": 24, "num_attention_heads": 4}
    with pytest.raises(md.CheckpointError, match=say):
        LlamaConfig.from_json(fields | changes)


def test_fields_that_are_missing_are_transformers(tmp_path):
    """Mistral's and Qwen2's defaults are not Llama's. A window of null is none."""
    from minidecode.models.llama import LlamaConfig

    llama, mistral, qwen2 = (LlamaConfig.from_json({"model_type": kind}) for kind in ("llama", "mistral", "qwen2"))
    assert (llama.intermediate_size, llama.max_position_embeddings, llama.attention_window) == (11008, 2048, None)
    assert (mistral.intermediate_size, mistral.max_position_embeddings) == (14336, 131072)
    assert (mistral.num_key_value_heads, mistral.attention_window) == (8, 4096)
    assert (qwen2.vocab_size, qwen2.intermediate_size, qwen2.max_position_embeddings) == (151936, 22016, 32768)
    assert qwen2.attention_window is None
    unlimited = LlamaConfig.from_json({"model_type": "mistral", "sliding_window": None, "num_key_value_heads": None})
    assert unlimited.attention_window is None and unlimited.heads(32).G == 32


def test_the_table_of_rotations_is_the_same_in_pieces(monkeypatch):
    golden = BY_NAME["llama3"]
    whole = golden.load().weights.turns_NK
    monkeypatch.setattr(llama, "AT_ONCE", 7)
    assert golden.load().weights.turns_NK.tobytes() == whole.tobytes()
    c, K = golden.config, whole.shape[1]
    angle_NX = np.arange(c.context)[:, None] * c.frequencies(K)
    assert np.array_equal(whole, np.concatenate([np.cos(angle_NX), np.sin(angle_NX)], axis=1).astype(whole.dtype))


def test_keys_and_values_can_be_pooled(golden, tmp_path):
    """Each new head is the mean of several; what one head is already stays."""
    if golden.config.num_key_value_heads == 1:
        pytest.skip("it has one key/value head")
    md.convert(golden.folder, tmp_path / "one", num_key_value_heads=1)
    old, new = golden.load(dtype="float64"), md.load(tmp_path / "one", dtype="float64")
    h = old.config.heads(old.config.num_attention_heads)
    for name, right in old.tensors.items():
        if ".k_proj." in name or ".v_proj." in name:
            right = right.reshape(h.G, -1, *right.shape[1:]).mean(axis=0)
        assert abs(new.tensors[name] - right).max() <= 2e-2 * abs(right).max(), name
    assert new.generate(input_ids=[[3, 4]], max_new_tokens=3).token_ids[0].size
