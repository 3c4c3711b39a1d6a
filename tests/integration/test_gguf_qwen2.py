"""Qwen2 in GGUF files that the package gguf wrote, as llama.cpp's converter does: rows, biases, tokenizer, chat."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from gguf_writer import (
    QWEN2,
    joined,
    permuted_rows,
    pieces,
    qwen2_settings,
    qwen2_tensors,
    qwen2_toy_tensors,
    tokenizer_settings,
    write_qwen2,
)

import minidecode as md
from minidecode import CheckpointError
from minidecode.files import gguf_folder
from minidecode.files.checkpoint import read_header
from minidecode.files.gguf_tokenizer import make_tokenizer
from minidecode.files.tokenizer import Tokenizer

pytest.importorskip("gguf", reason="needs the extra gguf")

# A conversation begins with the system's message, the user's or one that the template adds, as in Qwen2's own.
CHAT = (
    "{%- if messages[0]['role'] != 'system' -%}{{- '<|im_start|>system\\nBe of help.<|im_end|>\\n' -}}{%- endif -%}"
    "{%- for message in messages -%}{%- if not message.tool_calls -%}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' -}}"
    "{%- endif -%}{%- endfor -%}{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIDECODE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def file(tmp_path):
    return tmp_path / "toy.gguf"


def toy_fields(tied: bool = True) -> dict:
    return QWEN2 | {"vocab_size": len(toy_tokenizer()["tokenizer.ggml.tokens"]), "tie_word_embeddings": tied}


def toy_tokenizer() -> dict:
    """As Qwen2's: a text ends otherwise than a turn."""
    return tokenizer_settings() | {"tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.padding_token_id": 0,
                                   "tokenizer.chat_template": CHAT}  # fmt: skip


def write_toy(file, kind: str = "F32", tied: bool = True) -> dict[str, np.ndarray]:
    """A toy -> its tensors as the file holds them, by their names in a model folder."""
    fields = toy_fields(tied)
    held = write_qwen2(file, fields, qwen2_tensors(fields), toy_tokenizer(), kind)
    return {name if name == "lm_head.weight" else f"model.{name}": tensor for name, tensor in held.items()}


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"])
@pytest.mark.parametrize("tied", [False, True])
def test_all_tensors_come_back_in_their_order(file, kind, tied, monkeypatch):
    wanted = write_toy(file, kind, tied)

    def differing(out) -> set[str]:
        gguf_folder.convert_gguf(file, file.with_name(out))
        stored = read_folder(file.with_name(out))
        assert set(stored) == set(wanted)
        return {name for name in wanted if not np.array_equal(stored[name], wanted[name])}

    assert differing("out") == set()
    permuted_rows(monkeypatch)
    assert {re.search(r"(\w)_proj", name)[1] for name in differing("mutant")} == {"q", "k"}


def read_folder(folder) -> dict[str, np.ndarray]:
    """All of a folder's tensors in float32."""
    return {name: tensor.read(np.dtype(np.float32)) for name, tensor in
            read_header(folder / "model.safetensors").items()}  # fmt: skip


def test_settings_become_config_json(file):
    write_toy(file, tied=False)
    gguf_folder.convert_gguf(file, out := file.with_name("out"))
    config = json.loads((out / "config.json").read_text())
    expected = toy_fields(tied=False) | {"architectures": ["Qwen2ForCausalLM"], "head_dim": 8, "rope_scaling": None}
    assert {name: config[name] for name in expected} == expected
    end = toy_tokenizer()["tokenizer.ggml.eos_token_id"]
    tokens = json.loads((out / "generation_config.json").read_text())
    assert tokens == {"bos_token_id": 0, "eos_token_id": end, "pad_token_id": 0}


# --- the tokenizer ---


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("I'LL see", ["I", "'LL", " see"]),
        ("a  12", ["a", " ", " ", "1", "2"]),
        ("x\n\n3", ["x", "\n\n", "3"]),
        ("(word) end.\n\nNext", ["(word", ")", " end", ".\n\n", "Next"]),
        ("  \n  two   words ", ["  \n", " ", " two", "  ", " words", " "]),
        ("$5 ...", ["$", "5", " ..."]),
        ("\u00bd\u0663", ["\u00bd", "\u0663"]),  # numbers that are no digits of ours
        ("e\u0301t\u00e9", ["\u00e9t\u00e9"]),  # an accent behind its letter
    ],
)
def test_texts_are_split_as_qwen2_does(text, wanted):
    backend, _ = make_tokenizer(qwen2_settings(), "qwen2")
    text = backend.normalizer.normalize_str(text)
    split = backend.pre_tokenizer.pre_tokenize_str(text)
    assert [text[begin:end] for _, (begin, end) in split] == wanted


def test_a_file_of_before_tokenizers_said_how_they_split_is_split_as_qwen2_does():
    backend, warned = make_tokenizer(qwen2_settings(tokenizer__ggml__pre=None), "qwen2")
    assert backend.to_str() == make_tokenizer(qwen2_settings(), "qwen2")[0].to_str() and not warned


def test_a_text_comes_back(file):
    write_toy(file)
    gguf_folder.convert_gguf(file, out := file.with_name("out"))
    tokenizer = Tokenizer.from_folder(out)
    text = "the  12 the.\n\nTHE'LL <|im_end|>\u00e9\N{GRINNING FACE}"
    assert tokenizer.decode(tokenizer.encode(text), keep_special=True) == text
    assert tokenizer.decode(tokenizer.encode(text)) == text.replace("<|im_end|>", "")


def test_a_chat(file):
    """The template of the file makes the prompt, and the answer ends with the turn."""
    write_toy(file)
    model = md.load(file)
    hi = [{"role": "user", "content": "hi"}]
    said = model.tokenizer.decode(model.tokenizer.encode_chat(hi), keep_special=True)
    assert said == (
        "<|im_start|>system\nBe of help.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
    out = model.chat([{"role": "system", "content": "a"}, hi[0]], max_new_tokens=3)
    assert 1 <= len(out.token_ids[0]) <= 3


# --- what is refused ---


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"general__architecture": "qwen3"}, "its architecture is 'qwen3', and only llama and qwen2 are supported"),
        ({"qwen2__attention__sliding_window": 16}, "qwen2.attention.sliding_window = 16 is a kind of qwen2 that"),
        ({"qwen2__pooling_type": 1}, "qwen2.pooling_type = 1 is a kind of qwen2 that is not supported"),
        ({"qwen2__rope__scaling__type": "yarn"}, "qwen2.rope.scaling.type is 'yarn', and only none and linear"),
        ({"qwen2__block_count": None}, "qwen2.block_count must be a whole number from 1 to 2147483647, not None"),
        ({"qwen2__rope__freq_base": 0.0}, "qwen2.rope.freq_base must be a number above 0, not 0.0"),
        ({"qwen2__attention__head_count": 3, "qwen2__rope__dimension_count": None}, "3 heads of width 8 and 2"),
        ({"tokenizer__ggml__pre": "deepseek-r1-qwen"}, "'deepseek-r1-qwen', and only gpt-2, smollm, qwen2 are"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_named(file, changes, named):
    file.write_bytes(joined(pieces(qwen2_settings(**changes), qwen2_toy_tensors())))
    assert named in refused(file)


@pytest.mark.parametrize(
    ("without", "more", "named"),
    [
        ("blk.1.attn_k.bias", {}, "the tensor blk.1.attn_k.bias is missing"),
        ("", {"blk.0.attn_output.bias": np.ones(24, np.float32)}, "the tensor blk.0.attn_output.bias of a layer that"),
        ("", {"rope_freqs.weight": np.ones(3, np.float32)}, "the tensor rope_freqs.weight, which no qwen2 of these"),
    ],
)
def test_tensors_that_no_qwen2_has_are_refused_and_missing_ones_are_named(file, without, more, named):
    tensors = {name: tensor for name, tensor in qwen2_toy_tensors().items() if name != without} | more
    file.write_bytes(joined(pieces(qwen2_settings(), tensors)))
    assert named in refused(file)


def refused(file) -> str:
    with pytest.raises(CheckpointError) as caught:
        gguf_folder.convert_gguf(file, file.with_name("out"))
    message = str(caught.value)
    assert "\n" not in message and message.startswith(str(file)) and len(message) < 400
    assert not file.with_name("out").exists()
    return message
