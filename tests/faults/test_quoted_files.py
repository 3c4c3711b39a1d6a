"""What messages say of a file's own words: at most 80 characters at a time, and nothing that acts on a terminal."""

from __future__ import annotations

import json
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_writer import as_gguf, joined, llama_settings, llama_tensors, pieces
from torch_writer import called, pickled, tensor, zip_file
from toy_folder import pack, write_bart_folder, write_folder, write_shards

import minidecode as md
from minidecode.files.gguf_folder import convert_gguf

GOLDEN = Path(__file__).parents[1] / "golden"
LONG = "\x1b[31mq\n\u202e" + "q" * 20_000
NUMBERS = (int("7" * 4000), -float("1" * 300), [LONG], {LONG: LONG}, LONG)


def quoted_well(message: str) -> bool:
    return message.isprintable() and len(message) < 800 and not re.search("[q7]{81}|1{81}", message)


def places(value: Any, at: tuple = ()) -> Iterator[tuple]:
    """Where something can be put in the place of something else: of lists the first and the last place."""
    if at:
        yield at
    if isinstance(value, dict):
        items = list(value.items()) if len(value) < 60 else list(value.items())[:2]
    else:
        items = [(0, value[0]), (-1, value[-1])] if isinstance(value, list) and value else []
    for key, inner in items:
        yield from places(inner, (*at, key))


def spoilt(fields: Any) -> Iterator[Any]:
    """Long and odd values in each place, and long and odd keys in each object."""
    for at in places(fields):
        for value in NUMBERS:
            changed = json.loads(json.dumps(fields))
            inner = changed
            for key in at[:-1]:
                inner = inner[key]
            inner[at[-1]] = value
            yield changed
        if isinstance(at[-1], str):
            changed = json.loads(json.dumps(fields))
            inner = changed
            for key in at[:-1]:
                inner = inner[key]
            inner[LONG] = inner.pop(at[-1])
            yield changed


def said(use: Callable[[], object]) -> list[str]:
    """Warnings and the error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        messages = []
        try:
            use()
        except md.MinidecodeError as error:
            messages = [str(error)]
    return messages + [str(warning.message) for warning in caught if warning.category is md.MinidecodeWarning]


def check(path: Path, use: Callable[[], object], fields: Any = None, written: Callable[[Any], bytes] | None = None):
    """No spoilt form of a file makes a message that quotes more of it than it should."""
    whole = path.read_bytes() if path.exists() else None
    fields = json.loads(whole) if fields is None else fields
    bad = {}
    for i, changed in enumerate(spoilt(fields)):
        path.write_bytes(written(changed) if written else json.dumps(changed).encode())
        for message in said(use):
            if not quoted_well(message):
                bad[ascii(message.replace(str(path.parent), ""))[:150]] = i
    if whole is not None:
        path.write_bytes(whole)
    assert not bad, "\n".join(bad)


FOLDERS = ("gpt2/gelu", "gpt_bigcode/multi-query", "bart/gelu", "marian/gelu", "t5/gated-untied", "prophetnet/relu",
           "bert/labels", "unilm/plain", "llama/llama3")  # fmt: skip


@pytest.mark.parametrize("name", [*FOLDERS, "fairseq"])
def test_config_json(tmp_path, name):
    sys.path.append(str(GOLDEN))
    from fairseq_cases import write_model

    if name == "fairseq":
        folder = write_model("01-post-sin-separate", tmp_path)
    else:
        folder = Path(shutil.copytree(GOLDEN / name, tmp_path / "m"))
    check(folder / "config.json", lambda: md.load(folder))


SETTINGS = {
    "num_beams": 2, "eos_token_id": [1], "max_new_tokens": 3, "do_sample": True, "temperature": 1.0, "top_k": 5,
    "early_stopping": "never", "bad_words_ids": [[3]], "sequence_bias": [[[3], 1.0]], "suppress_tokens": [4],
    "exponential_decay_length_penalty": [1, 1.5], "penalty_alpha": None, "stop_strings": ["x"], "dialect": "hf",
}  # fmt: skip


def test_generation_config_json(tiny_folder):
    folder = tiny_folder()
    check(
        folder / "generation_config.json", lambda: md.load(folder).generate("a"), SETTINGS | {"json_schema": "a.json"}
    )


def test_tokenizer_json_and_its_settings(tiny_folder):
    folder = tiny_folder()
    tokens = {"additional_special_tokens": ["the"], "eos_token": {"content": "<|endoftext|>"}, "add_prefix_space": True}
    decoder = {"added_tokens_decoder": {"0": {"content": "<|endoftext|>", "special": True}}, "chat_template": "{{ a }}"}
    check(folder / "tokenizer.json", lambda: md.load(folder))
    for file, fields in (("tokenizer_config.json", tokens | decoder), ("special_tokens_map.json", tokens),
                         ("added_tokens.json", {"<|endoftext|>": 0})):  # fmt: skip
        check(folder / file, lambda: md.load(folder), fields)
        (folder / file).unlink(missing_ok=True)


def test_settings_of_sentences(tmp_path):
    folder = Path(shutil.copytree(GOLDEN / "bert/plain", tmp_path / "m"))
    modules = [{"type": "a.Transformer", "path": ""}, {"type": "a.Pooling", "path": "1_Pooling"}]
    files = {"modules.json": modules, "1_Pooling/config.json": {"pooling_mode": ["mean"], "include_prompt": True},
             "sentence_bert_config.json": {"max_seq_length": 8}, "tokenizer_config.json": {"model_max_length": 8},
             "config_sentence_transformers.json": {"prompts": {"q": "a"}, "default_prompt_name": "q"}}  # fmt: skip
    (folder / "1_Pooling").mkdir()
    for name, fields in files.items():
        (folder / name).write_text(json.dumps(fields), encoding="utf-8")
    assert said(lambda: md.load(folder).encode(input_ids=[[3, 4]])) == []
    for name in files:
        check(folder / name, lambda: md.load(folder).encode(input_ids=[[3, 4]]))


def test_vocab_json_and_merges(tmp_path):
    folder = write_bart_folder(tmp_path / "bart")
    check(folder / "vocab.json", lambda: md.load(folder))
    check(folder / "merges.txt", lambda: md.load(folder), ["a b", "c d"],
          lambda lines: "\n".join(map(str, lines)).encode())  # fmt: skip


def test_the_header_of_safetensors_and_the_index(tmp_path):
    folder = write_folder(tmp_path / "toy")
    whole = (folder / "model.safetensors").read_bytes()
    length = int.from_bytes(whole[:8], "little")
    entries = json.loads(whole[8 : 8 + length])
    header = {name: entries[name] for name in ("wte.weight", "ln_f.bias")}
    data = whole[8 + length :]
    check(folder / "model.safetensors", lambda: md.load(folder), header | {"__metadata__": {"format": "pt"}},
          lambda changed: pack(changed, data))  # fmt: skip
    index = write_shards(folder, {})
    (folder / "model.safetensors").unlink()
    check(folder / "model.safetensors.index.json", lambda: md.load(folder),
          index | {"weight_map": {"a": "x.safetensors"}})  # fmt: skip


NAMES = ["q" * 20_000, "q " * 10_000, LONG]


@pytest.mark.parametrize("name", NAMES, ids=["word", "words", "controls"])
def test_names_in_gguf_files(tmp_path, name):
    pytest.importorskip("gguf", reason="needs the extra gguf")
    path, tensors = tmp_path / "a.gguf", as_gguf(llama_tensors())
    first, *others = tensors
    renamed = {name: tensors[first]} | {other: tensors[other] for other in others}
    for settings, held in (
        (llama_settings() | {name: 1}, tensors), (llama_settings() | {f"llama.{name}": name}, tensors),
        (llama_settings(), renamed), (llama_settings(), tensors | {name: np.ones(3, np.float32)}),
        (llama_settings(), {name: (0, (2**40,), b"")}), (llama_settings(), {name: (99, (4,), b"")}),
        (llama_settings(tokenizer__ggml__pre=name), tensors), (llama_settings(general__architecture=name), tensors),
    ):  # fmt: skip
        path.write_bytes(joined(pieces(settings, held)))
        assert all(map(quoted_well, said(lambda: convert_gguf(path, tmp_path / "out"))))
        shutil.rmtree(tmp_path / "out", ignore_errors=True)


@pytest.mark.parametrize("name", NAMES, ids=["word", "words", "controls"])
@pytest.mark.parametrize("kind", ["tensor", "storage", "count", "class"])
def test_names_in_torch_files(tmp_path, name, kind):
    folder = write_folder(tmp_path / "toy")
    (folder / "model.safetensors").unlink()
    key, count = (name if kind == "storage" else "0"), 7 if kind == "count" else 2
    described = {name: tensor(key, "Float", count, 0, (2,), (1,))} if kind != "class" else {"a": called(f"os.{name}")}
    (folder / "pytorch_model.bin").write_bytes(zip_file(pickled(described), {key: bytes(8)}))
    messages = said(lambda: md.load(folder))
    assert messages and all(map(quoted_well, messages)), messages
