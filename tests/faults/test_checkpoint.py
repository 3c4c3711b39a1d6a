"""Folders and files that lie, miss something or hold too much: one CheckpointError each, which names the culprit."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import numpy as np
import pytest
from taken_bytes import peak_of
from toy_folder import (
    BART_CONFIG,
    CONFIG,
    END,
    entries,
    pack,
    toy_tensors,
    write_bart_folder,
    write_bpe,
    write_json,
    write_safetensors,
    write_shards,
)

import minidecode as md
from minidecode.files.checkpoint import read_header
from minidecode.files.tokenizer import Tokenizer
from minidecode.files.tokenizer_checks import check_tokenizer

HEADER = {
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "F16", "shape": [4], "data_offsets": [24, 32]},
}
DATA = bytes(32)
WHOLE = pack(HEADER, DATA)


def refusal(call, *arguments, **options) -> str:
    """The message of the CheckpointError that the call must raise: one line."""
    with pytest.raises(md.CheckpointError) as caught:
        call(*arguments, **options)
    message = str(caught.value)
    assert message and "\n" not in message
    return message


# --- one safetensors file ---


def with_a(**changes: object) -> bytes:
    return pack(HEADER | {"a": HEADER["a"] | changes}, DATA)


LYING = {
    "empty": b"",
    "shorter than the length field": WHOLE[:7],
    "header cut": WHOLE[:40],
    "data cut": WHOLE[:-1],
    "data too long": WHOLE + b"\0",
    "no header": pack(b"", DATA),
    "header length beyond the file": pack(HEADER, DATA, length=10**6),
    "header length of 2**63": pack(HEADER, DATA, length=2**63),
    "header length of 2**64 - 1": pack(HEADER, DATA, length=2**64 - 1),
    "header not JSON": pack(b"{" + b"x" * 50, DATA),
    "header not UTF-8": pack(b'{"\xff": 1}', DATA),
    "header a list": pack([HEADER], DATA),
    "header nested without end": pack(b"[" * 100_000, DATA),
    "header nested in an entry": pack(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", DATA),
    "entry a number": pack({"a": 3}, DATA),
    "entry without offsets": pack({"a": {"dtype": "F32", "shape": [8]}}, DATA),
    "offsets overlap": with_a(data_offsets=[8, 32]),
    "offsets leave a hole": with_a(data_offsets=[0, 20], shape=[5]),
    "offsets beyond the file": with_a(data_offsets=[0, 24 + 10**9]),
    "offsets of 2**64": with_a(data_offsets=[0, 2**64]),
    "offsets reversed": with_a(data_offsets=[24, 0]),
    "offsets negative": with_a(data_offsets=[-24, 0]),
    "three offsets": with_a(data_offsets=[0, 12, 24]),
    "count too large": with_a(shape=[10**12]),
    "count overflows to 0": with_a(shape=[2**32, 2**32]),
    "count overflows to 6": with_a(shape=[2**63 + 3, 2]),
    "dimension negative": with_a(shape=[-2, -3]),
    "dimension a fraction": with_a(shape=[2.0, 3]),
    "dtype of another size": with_a(dtype="F64"),
    "dtype unknown": with_a(dtype="F33"),
    "dtype a number": with_a(dtype=32),
}


@pytest.mark.parametrize("fault", LYING)
def test_a_lying_file_is_refused(tmp_path, fault):
    path = tmp_path / "model.safetensors"
    path.write_bytes(LYING[fault])
    most = 200_000 + 20 * len(LYING[fault])
    message, peak = peak_of(lambda: refusal(read_header, path), most)
    assert "model.safetensors" in message and "download it again" in message
    assert peak < most


def test_the_right_file_is_read(tmp_path):
    """The lies above start from this one: it must not be refused itself."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(WHOLE)
    assert {name: stored.shape for name, stored in read_header(path).items()} == {"a": (2, 3), "b": (4,)}


def test_a_folder_in_the_place_of_the_file(tiny_folder):
    folder = tiny_folder()
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").mkdir()
    assert "model.safetensors" in refusal(md.load, folder)


# --- the folder ---


@pytest.mark.parametrize("name", ["no-such-model", "/no/such/folder", "", "x" * 300, "~nosuchuser/x", "a\0b"])
def test_missing_folder(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "folder" in refusal(md.load, name or "nowhere")


def test_a_file_instead_of_a_folder(tiny_folder):
    path = tiny_folder() / "model.safetensors"
    assert "is a file, not a folder" in refusal(md.load, path)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_file_of_the_folder_is_missing(tiny_folder, name):
    folder = tiny_folder()
    (folder / name).unlink()
    assert name in refusal(md.load, folder)


FILES = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "added_tokens.json",
         "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"]  # fmt: skip


def without_weights(folder: Path, name: str) -> Path:
    """The folder, so that it is this file that is read: where it holds weights, there are no others; nor is it."""
    if name.startswith(("model.", "pytorch_model.")):
        (folder / "model.safetensors").unlink()
    (folder / name).unlink(missing_ok=True)
    return folder


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("name", FILES)
def test_a_pipe_is_not_waited_for(tiny_folder, name):
    """And a device that never ends is not read."""
    folder = without_weights(tiny_folder(), name)
    os.mkfifo(folder / name)
    assert f"{name} cannot be read: it is a pipe or a device, not a file" in refusal(md.load, folder)
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    assert f"{name} cannot be read: it is a pipe or a device, not a file" in refusal(md.load, folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "generation_config.json"])
def test_a_text_file_of_many_gigabytes_is_not_read(tiny_folder, name):
    folder = tiny_folder()
    with open(folder / name, "wb") as file:
        file.truncate(2**34)
    message = refusal(md.load, folder)
    assert name in message and "17,179,869,184 bytes, and at most 268,435,456 are read" in message


@pytest.mark.parametrize("names", [["adapter_config.json"], ["adapter_config.json", "adapter_model.safetensors"]])
@pytest.mark.parametrize("has_config", [True, False])
def test_a_folder_of_an_adapter_is_named_as_one(tiny_folder, names, has_config):
    folder = tiny_folder()
    for name in names:
        write_json(folder / name, {})
    assert md.load(folder), "beside whole weights an adapter is no matter"
    (folder / "model.safetensors").unlink()
    if not has_config:
        (folder / "config.json").unlink()
    assert "holds a PEFT adapter, not a whole model: merge it into its base model first" in refusal(md.load, folder)


def test_weights_of_another_format_are_pointed_at(tiny_folder):
    folder = tiny_folder()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "pytorch_model.bin" in refusal(md.load, folder)


# --- config.json ---

BAD_JSON = {
    "empty": b"",
    "cut": b'{"model_type": "gpt2", ',
    "a list": b"[]",
    "a text": b'"gpt2"',
    "not UTF-8": b'{"model_type": "\xff"}',
    "nested without end": b'{"a":' * 100_000,
    "a number of 5000 digits": b'{"n_layer": ' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json"])
@pytest.mark.parametrize("fault", BAD_JSON)
def test_a_file_that_is_no_json_object(tiny_folder, name, fault):
    folder = tiny_folder()
    (folder / name).write_bytes(BAD_JSON[fault])
    assert name in refusal(md.load, folder)


BAD_FIELDS = [
    ("model_type", "no-such-type"), ("model_type", None), ("model_type", ["gpt2"]),
    ("n_embd", 9), ("n_embd", 0), ("n_embd", -8), ("n_embd", True), ("n_embd", "8"), ("n_embd", 8.0), ("n_embd", None),
    ("n_head", 3), ("n_head", 0), ("n_layer", 0), ("n_layer", -1), ("n_layer", "two"), ("n_positions", -1),
    ("n_inner", 0), ("n_inner", "many"), ("vocab_size", 0), ("vocab_size", [260]),
    ("activation_function", "no_such_activation"), ("activation_function", 1),
    ("activation_function", ["gelu"]),
    ("n_embd", float("nan")), ("n_layer", float("inf")), ("scale_attn_weights", float("nan")),
    ("activation_function", float("nan")), ("layer_norm_epsilon", 1.5), ("layer_norm_epsilon", 10**400),
    ("layer_norm_epsilon", float("nan")), ("layer_norm_epsilon", float("inf")), ("layer_norm_epsilon", -1e-5),
    ("layer_norm_epsilon", "small"), ("layer_norm_epsilon", None), ("layer_norm_epsilon", True),
    ("scale_attn_weights", "yes"), ("scale_attn_by_inverse_layer_idx", 1), ("tie_word_embeddings", "false"),
    ("add_cross_attention", True),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), BAD_FIELDS)
def test_a_bad_field_is_named(tiny_folder, field, value):
    folder = tiny_folder()
    write_json(folder / "config.json", CONFIG | {field: value})
    message = refusal(md.load, folder)
    assert field in message and "twice" not in message


@pytest.mark.parametrize("field", ["n_layer", "n_embd", "n_positions", "vocab_size", "n_inner"])
def test_a_huge_number_costs_neither_time_nor_memory(tiny_folder, field):
    folder = tiny_folder()
    write_json(folder / "config.json", CONFIG | {field: 10**9 * CONFIG["n_head"]})
    md.bundled_models()  # so that what is loaded once is not counted
    message, peak = peak_of(lambda: refusal(md.load, folder), 2_000_000)
    assert "config.json" in message
    assert peak < 2_000_000


# --- the tensors against config.json ---


def missing(tensors):
    del tensors["h.1.mlp.c_fc.weight"]


def extra(tensors):
    tensors["h.2.ln_1.weight"] = np.zeros(8)


def wrong_shape(tensors):
    tensors["wpe.weight"] = np.zeros((17, 8))


def transposed(tensors):
    tensors["h.0.attn.c_attn.weight"] = tensors["h.0.attn.c_attn.weight"].T


def tied_of_wrong_shape(tensors):
    tensors["lm_head.weight"] = np.zeros((260, 9))


NOT_FITTING = [
    (missing, ["h.1.mlp.c_fc.weight is missing", "(8, 32)"]),
    (extra, ["h.2.ln_1.weight", "(8,)"]),
    (wrong_shape, ["wpe.weight", "(17, 8)", "expected (16, 8)"]),
    (transposed, ["h.0.attn.c_attn.weight", "(24, 8)", "expected (8, 24)"]),
    (tied_of_wrong_shape, ["lm_head.weight", "(260, 9)", "expected (260, 8)"]),
]


@pytest.mark.parametrize(("change", "named"), NOT_FITTING)
def test_a_tensor_that_does_not_fit_is_named_with_both_shapes(tiny_folder, change, named):
    tensors = toy_tensors(CONFIG)
    change(tensors)
    message = refusal(md.load, tiny_folder(tensors=tensors))
    assert all(part in message for part in named), message


EXTRA = ["v_head.summary.weight", "score.weight", "classification_head.dense.bias", "h.0.attn.a_buffer"]


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_tensors_of_other_heads_are_warned_of_and_change_nothing(tiny_folder, prefix):
    tensors = toy_tensors(CONFIG)
    expected = md.load(tiny_folder()).logits([[5, 6]])[0]
    others = {name: np.full(2, 9.0) for name in EXTRA}
    folder = tiny_folder(tensors={prefix + name: array for name, array in tensors.items()} | others)
    with pytest.warns(md.MinidecodeWarning, match=f"{folder}: .* ignored: {', '.join(EXTRA)}$") as warned:
        model = md.load(folder)
    assert len(warned) == 1 and warned[0].filename == __file__
    assert (model.logits([[5, 6]])[0] == expected).all()


def test_of_many_extra_tensors_four_are_named(tiny_folder):
    folder = tiny_folder(tensors=toy_tensors(CONFIG) | {f"head.{i}": np.zeros(1) for i in range(9)})
    with pytest.warns(md.MinidecodeWarning, match="head.0, head.1, head.2, head.3 and 5 more$"):
        md.load(folder)


@pytest.mark.parametrize("name", ["encoder.layers.1.fc1.weight", "decoder.layers.2.fc1.weight", "decoder.layers.12.x"])
@pytest.mark.parametrize("prefix", ["", "model."])
def test_a_layer_of_bart_beyond_those_of_the_config_is_refused(tmp_path, prefix, name):
    tensors = {prefix + k: array for k, array in toy_tensors(BART_CONFIG).items()}
    folder = write_bart_folder(tmp_path / "bart", tensors | {prefix + name: np.zeros(3)})
    message = refusal(md.load, folder)
    assert f"{name} is of a layer that config.json does not have" in message


def test_a_classification_head_of_bart_is_warned_of(tmp_path):
    head = {"classification_head.dense.weight": np.zeros((8, 8)), "classification_head.out_proj.bias": np.zeros(3)}
    with pytest.warns(md.MinidecodeWarning, match="classification_head.dense.weight"):
        md.load(write_bart_folder(tmp_path / "bart", toy_tensors(BART_CONFIG) | head))


def test_many_problems_stay_one_short_line(tiny_folder):
    message = refusal(md.load, tiny_folder(tensors={"nothing.weight": np.zeros(3), "else.weight": np.zeros(3)}))
    assert len(message) < 600 and "config.json" in message


def test_a_dtype_that_cannot_be_computed_with_is_named(tiny_folder):
    message = refusal(md.load, tiny_folder(dtype={"ln_f.bias": "I64"}))
    assert "ln_f.bias" in message and "I64" in message and "BF16" in message


@pytest.mark.parametrize("dtype", ["F32", "BOOL"])
@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_the_masks_of_old_files_are_passed_over(tiny_folder, prefix, dtype):
    tensors = {prefix + name: array for name, array in toy_tensors(CONFIG).items()}
    masks = {f"{prefix}h.{i}.attn.{name}": np.ones((1, 1, 16, 16)) for i in (0, 1) for name in ("bias", "masked_bias")}
    md.load(tiny_folder(tensors=tensors | masks, dtype=dict.fromkeys(masks, dtype)))


@pytest.mark.parametrize("value", [1.0, np.nan])
def test_a_stored_copy_of_the_tied_embedding_is_accepted(tiny_folder, value):
    """Even with a NaN in it, which differs from itself: NaN weights have a message of their own."""
    tensors = toy_tensors(CONFIG)
    tensors["wte.weight"][3, 3] = value
    model = md.load(tiny_folder(tensors=tensors | {"lm_head.weight": tensors["wte.weight"]}))
    assert model.parameters == sum(t.size for t in tensors.values())


def test_a_stored_copy_that_differs_is_refused(tiny_folder):
    tensors = toy_tensors(CONFIG)
    message = refusal(md.load, tiny_folder(tensors=tensors | {"lm_head.weight": tensors["wte.weight"] + 1}))
    assert "lm_head.weight" in message and "tie_word_embeddings" in message


def test_names_with_and_without_prefix_at_once(tiny_folder):
    tensors = toy_tensors(CONFIG)
    message = refusal(md.load, tiny_folder(tensors=tensors | {"transformer.ln_f.bias": np.zeros(8)}))
    assert "ln_f.bias is stored twice" in message


# --- shards ---


@pytest.fixture
def sharded_folder(tiny_folder):
    folder = tiny_folder()
    write_shards(folder, toy_tensors(CONFIG))
    (folder / "model.safetensors").unlink()
    return folder


def test_a_missing_shard_is_named(sharded_folder):
    (sharded_folder / "model-00002-of-00002.safetensors").unlink()
    assert "model-00002-of-00002.safetensors is missing" in refusal(md.load, sharded_folder)


FIRST, SECOND = (f"model-0000{i}-of-00002.safetensors" for i in (1, 2))


def test_a_tensor_that_no_shard_has_is_named(sharded_folder):
    tensors = toy_tensors(CONFIG)
    first = list(tensors)[::2][1:]
    write_safetensors(sharded_folder / FIRST, {name: tensors[name] for name in first})
    assert "wte.weight is missing" in refusal(md.load, sharded_folder)


INDEXES = {  # what is put in, and what is taken out
    "a tied head": ({"lm_head.weight": SECOND}, ()),
    "a mask of old files": ({"h.0.attn.bias": FIRST}, ()),
    "one that is left out": ({}, ("ln_f.weight", "wpe.weight")),
    "one in the wrong shard": ({"wte.weight": SECOND}, ()),
}


@pytest.mark.parametrize("change", INDEXES)
def test_the_shards_count_and_not_the_index(sharded_folder, change):
    """As in transformers, which reads all that the shards hold."""
    path, (more, without) = sharded_folder / "model.safetensors.index.json", INDEXES[change]
    index = json.loads(path.read_text())["weight_map"] | more
    write_json(path, {"weight_map": {name: file for name, file in index.items() if name not in without}})
    found = md.load(sharded_folder).tensors
    assert all(np.array_equal(found[name], tensor) for name, tensor in toy_tensors(CONFIG).items())


@pytest.mark.parametrize("listed", [FIRST, SECOND, None])
def test_of_two_shards_with_one_tensor_the_index_chooses(sharded_folder, listed):
    path, tensors = sharded_folder / "model.safetensors.index.json", toy_tensors(CONFIG)
    names, last = list(tensors), list(tensors)[-1]
    for i, file in enumerate((FIRST, SECOND)):
        mine = {name: tensors[name] for name in names[i::2]}
        write_safetensors(sharded_folder / file, mine | {last: np.full_like(tensors[last], i)})
    index = json.loads(path.read_text())["weight_map"]
    write_json(path, {"weight_map": {name: file for name, file in (index | {last: listed}).items() if file}})
    if listed is None:
        message = refusal(md.load, sharded_folder)
        assert all(name in message for name in (last, FIRST, SECOND))
    else:
        assert np.all(md.load(sharded_folder).tensors[last] == (FIRST, SECOND).index(listed))


BAD_INDEXES = {
    "a list": [],
    "no weight_map": {"metadata": {}},
    "weight_map a list": {"weight_map": ["model.safetensors"]},
    "a file as a number": {"weight_map": {"wte.weight": 1}},
    "out of the folder": {"weight_map": {"wte.weight": "../x.safetensors"}},
    "an absolute path": {"weight_map": {"wte.weight": "/x.safetensors"}},
    "another kind of file": {"weight_map": {"wte.weight": "config.json"}},
    "an impossible name": {"weight_map": {"wte.weight": "\0.safetensors"}},
    "a name too long": {"weight_map": {"wte.weight": "x" * 5000 + ".safetensors"}},
    "half a surrogate pair": {"weight_map": {"wte.weight": "\ud800.safetensors"}},
    "nothing": {"weight_map": {}},
}


@pytest.mark.parametrize("fault", BAD_INDEXES)
def test_a_bad_index_is_refused(sharded_folder, fault):
    write_json(sharded_folder / "model.safetensors.index.json", BAD_INDEXES[fault])
    refusal(md.load, sharded_folder)


# --- tokenizer ---


@pytest.mark.parametrize("content", ["{}", '{"model": {"type": "BPE"}}', '{"version": "1.0", "model": null}'])
def test_a_tokenizer_file_that_is_none(tiny_folder, content):
    folder = tiny_folder()
    (folder / "tokenizer.json").write_text(content)
    assert "tokenizer.json" in refusal(md.load, folder)


@pytest.fixture
def bpe_folder(tiny_folder):
    folder = tiny_folder()
    (folder / "tokenizer.json").unlink()
    write_bpe(folder)
    return folder


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt"])
def test_half_a_tokenizer(bpe_folder, name):
    (bpe_folder / name).unlink()
    assert f"no {name}" in refusal(md.load, bpe_folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [("vocab.json", "[]"), ("vocab.json", '{"a": "b"}'), ("vocab.json", '{"a": -1}'), ("merges.txt", "a b c d\n"),
     ("merges.txt", "q zzz\n")],
)  # fmt: skip
def test_a_broken_half_of_a_tokenizer(bpe_folder, name, content):
    (bpe_folder / name).write_text(content)
    assert name in refusal(md.load, bpe_folder)


def test_two_tokens_with_one_id_are_refused_by_name(bpe_folder):
    """Only one of them could be decoded, and texts would change in silence."""
    fields = json.loads((bpe_folder / "vocab.json").read_text(encoding="utf-8"))
    write_json(bpe_folder / "vocab.json", fields | {"the": fields["th"]})
    assert f"vocab.json: 'th' and 'the' have the same id {fields['th']}: use" in refusal(md.load, bpe_folder)


UNIGRAM = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0], ["b", -2.0]]}
WORDS = {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, "b": 1}, "unk_token": "[UNK]"}


@pytest.mark.parametrize(
    ("model", "added", "says"),
    [
        (WORDS, [], "'a' and 'b' have the same id 1"),
        (UNIGRAM, [{"id": 2, "content": "<mask>", "special": True}], "'b' and '<mask>' have the same id 2"),
        (UNIGRAM, [{"id": 3, "content": "x"}, {"id": 3, "content": "y"}], "'x' and 'y' have the same id 3"),
        (UNIGRAM, [{"id": 2, "content": "b"}, {"id": 3, "content": "x"}], None),
    ],
)
def test_two_tokens_of_a_tokenizer_json_with_one_id(tiny_folder, model, added, says):
    flags = dict.fromkeys(("special", "lstrip", "rstrip", "normalized", "single_word"), False)
    folder = changed_tokenizer(tiny_folder(), model=model, added_tokens=[flags | token for token in added])
    if says:
        assert says in refusal(md.load, folder)
    else:
        md.load(folder)


@pytest.mark.parametrize("settings", [{"eos_token": ["a"]}, {"eos_token": {}}, {"eos_token": None}, {"eos_token": 3}])
def test_odd_names_of_special_tokens_are_passed_over(bpe_folder, settings):
    write_json(bpe_folder / "tokenizer_config.json", settings)
    assert Tokenizer.from_folder(bpe_folder).encode("the<|endoftext|>").tolist()[-1] == END


@pytest.mark.parametrize(("file", "content", "what"), [
    ("added_tokens.json", {"<new>": 3}, "'<new>' should have id 3"),
    ("added_tokens.json", {"<new>": "x"}, "no integer"),
    *(("added_tokens.json", {"<new>": id}, "no integer")
      for id in ([3], {}, None, True, 1.5, -1, 2**40, float("inf"), float("nan"))),
    ("added_tokens.json", {"\ud800": 3}, "has no text"),
    ("added_tokens.json", {"": 260}, "'' should have id 260"),
    ("tokenizer_config.json", {"added_tokens_decoder": {"-3": {"content": "<new>"}}}, "no integer"),
    ("tokenizer_config.json", {"added_tokens_decoder": {"a": {"content": "<new>"}}}, "no integer"),
    ("tokenizer_config.json", {"added_tokens_decoder": {"3": "<new>"}}, "has no text"),
    ("tokenizer_config.json", {"added_tokens_decoder": {"3": {"lstrip": True}}}, "has no text"),
])  # fmt: skip
def test_added_tokens_that_cannot_be(tiny_folder, file, content, what):
    folder = tiny_folder()
    write_json(folder / file, content)
    assert what in refusal(md.load, folder)


def test_special_tokens_of_wrong_kinds_are_passed_over(bpe_folder):
    write_json(bpe_folder / "special_tokens_map.json", {"eos_token": {"content": ["a"]}, "pad_token": {}})
    write_json(bpe_folder / "tokenizer_config.json", {"tokenizer_class": ["x"], "add_prefix_space": True})
    assert Tokenizer.from_folder(bpe_folder).encode("the<|endoftext|>").tolist()[-1] == END


def changed_tokenizer(folder: Path, **parts) -> Path:
    fields = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    write_json(folder / "tokenizer.json", fields | parts)
    return folder


def replace(content: str, **pattern: str) -> dict:
    return {"type": "Replace", "pattern": pattern, "content": content}


def in_turn(part: dict, times: int) -> dict:
    return {"type": "Sequence", "normalizers": [part] * times, "decoders": [part] * times}


def charsmap(table: int, texts: bytes) -> dict:
    encoded = base64.b64encode(table.to_bytes(4, "little") + texts).decode()
    return {"type": "Precompiled", "precompiled_charsmap": encoded}


PREFIXED = {"type": "BPE", "vocab": {"aé": 0, "a": 1, "é": 2}, "merges": [["a", "é"]]}
BOMBS = [  # parts of a tokenizer.json with which the library fills the memory, panics, or ends the process
    ({"normalizer": in_turn(replace("aa", String="a"), 40)}, "normalizer may make a text more than 1000 times as long"),
    ({"normalizer": replace("a" * 2000, String="")}, "normalizer may make a text more"),
    ({"normalizer": replace("a" * 2000, Regex="x*")}, "normalizer may make a text more"),
    ({"normalizer": {"pattern": {"String": "a"}, "content": "a" * 2000}}, "normalizer may make a text more"),
    ({"normalizer": {"type": "Prepend", "prepend": "a" * 2000}}, "normalizer may make a text more"),
    ({"normalizer": in_turn(in_turn({"type": "Prepend", "prepend": "a"}, 5), 5)}, "normalizer may make a text more"),
    ({"normalizer": charsmap(0, b"a\0" + b"b" * 2000)}, "normalizer may make a text more"),
    ({"decoder": in_turn(replace("aa", String="a"), 40)}, "decoder may make a text more"),
    ({"normalizer": charsmap(2**32 - 1, b"a")}, "precompiled_charsmap is cut off or damaged"),
    ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "precompiled_charsmap is cut off"),
    ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAAAA=="}}, "cannot be read as a tokenizer"),
    ({"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "X", "type_id": 0}}] * 100,
      "pair": [], "special_tokens": {"X": {"id": "X", "ids": [0] * 100, "tokens": ["a"] * 100}}}},
     "post_processor adds more than 1000 tokens"),
    ({"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "X", "type_id": 0}}],
      "pair": [], "special_tokens": {}}}, "cannot be read as a tokenizer"),
    ({"pre_tokenizer": {"type": "FixedLength", "length": 0}}, "cannot be read as a tokenizer"),
    ({"model": PREFIXED | {"continuing_subword_prefix": "x"}}, "does not go on with continuing_subword_prefix 'x'"),
    ({"model": PREFIXED | {"merges": [3], "continuing_subword_prefix": "x"}}, "does not go on with"),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "words"), BOMBS, ids=range(len(BOMBS)))
def test_a_tokenizer_that_would_blow_up_or_panic(tiny_folder, capfd, parts, words):
    """One error, and nothing of the library's own on standard error."""
    assert words in refusal(md.load, changed_tokenizer(tiny_folder(), **parts))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("strategy", "multiple"), [({"Fixed": 10**9}, None), ("BatchLongest", 10**9), ({"Fixed": 10**18}, None)]
)
def test_padding_without_an_end_is_never_tried(tiny_folder, strategy, multiple):
    """The library would make room for it, and end the whole process."""
    padding = {"strategy": strategy, "direction": "Right", "pad_to_multiple_of": multiple, "pad_id": 0,
               "pad_type_id": 0, "pad_token": "a"}  # fmt: skip
    assert Tokenizer.from_folder(changed_tokenizer(tiny_folder(), padding=padding)).encode("the").size == 1


def test_parts_of_tokenizers_that_are_no_bombs(tiny_folder):
    parts = [{"type": "NFKC"}, replace(" ", Regex=" {2,}"), replace("\u2581", String=" "),
             {"type": "Prepend", "prepend": "\u2581"}, charsmap(0, b"\0\xef\xbb\xbf\0abc")]  # fmt: skip
    fields = {"normalizer": {"type": "Sequence", "normalizers": parts}, "post_processor": None}
    assert 1 < check_tokenizer(Path("tokenizer.json"), fields) < 100
    folder = changed_tokenizer(tiny_folder(), normalizer={"type": "Sequence", "normalizers": parts[:4]})
    assert len(Tokenizer.from_folder(folder).encode("a  b")) > 3


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"normalizers": 5}', '{"pattern": 5, "content": "a"}', '{"prepend": 1}']
)
def test_parts_of_wrong_kinds_are_left_to_the_library(tiny_folder, content):
    folder = changed_tokenizer(tiny_folder(), normalizer=json.loads(content), post_processor=json.loads(content))
    assert "cannot be read as a tokenizer" in refusal(md.load, folder)


def test_a_text_that_a_tokenizer_cannot_encode(tiny_folder, capfd):
    """Words that a vocabulary without [UNK] does not hold; a text at which the library gives up on an expression."""
    word_level = {"type": "WordLevel", "vocab": {"the": 0}, "unk_token": "[UNK]"}
    folder = changed_tokenizer(tiny_folder(), model=word_level, pre_tokenizer={"type": "Whitespace"}, added_tokens=[])
    tokenizer = Tokenizer.from_folder(folder)
    assert tokenizer.encode("the").tolist() == [0]
    with pytest.raises(md.InputError, match=r"cannot encode a text \(.*\[UNK\].*\): use another text"):
        md.load(folder).generate("the sea")
    expression = {"type": "Split", "pattern": {"Regex": "(a+)+c"}, "behavior": "Isolated", "invert": False}
    tokenizer = Tokenizer.from_folder(changed_tokenizer(tiny_folder(), pre_tokenizer=expression))
    with pytest.raises(md.InputError, match="cannot encode a text"):
        tokenizer.encode("a" * 40)
    assert capfd.readouterr().err == ""


def test_a_text_that_would_become_too_long(tiny_folder, monkeypatch):
    folder = changed_tokenizer(tiny_folder(), normalizer=replace("a" * 900, String="a"))
    monkeypatch.setattr("minidecode.files.tokenizer.MOST_CHARACTERS", 10_000)
    tokenizer = Tokenizer.from_folder(folder)
    tokenizer.encode("a" * 11)
    with pytest.raises(md.InputError, match="12 characters, too many for this tokenizer: shorten it"):
        tokenizer.encode("a" * 12)


def test_a_folder_without_a_tokenizer_takes_token_ids_alone(tiny_folder):
    folder = tiny_folder()
    (folder / "tokenizer.json").unlink()
    model = md.load(folder)
    assert len(model.generate(input_ids=[[1, 2]], max_new_tokens=1).token_ids) == 1
    with pytest.raises(md.InputError, match="no tokenizer"):
        model.generate("a")


# --- generation_config.json ---

BAD_DEFAULTS = [
    ("num_beams", "four"), ("num_beams", 0), ("max_length", -1), ("length_penalty", "long"), ("eos_token_id", "end"),
    ("decoder_start_token_id", 10**6), ("early_stopping", "perhaps"), ("do_sample", "yes"), ("num_beam_groups", 2),
    ("repetition_penalty", 0.0), ("bad_words_ids", [3]), ("suppress_tokens", ["a"]),
    ("no_repeat_ngram_size", 2.5), ("early_stopping", []),
    ("eos_token_id", 1.5),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), BAD_DEFAULTS)
def test_a_bad_default_is_named(tiny_folder, field, value):
    """At the first call, not at the load: what the caller gives goes before the defaults."""
    folder = tiny_folder()
    write_json(folder / "generation_config.json", {field: value})
    with pytest.raises(md.OptionError, match=field):
        md.load(folder).generate("the")


def test_a_bad_default_for_sampling_is_named_when_it_is_used(tiny_folder):
    folder = tiny_folder()
    write_json(folder / "generation_config.json", {"top_p": 2.0})
    assert md.load(folder).generate("the", max_new_tokens=1).token_ids
    with pytest.raises(md.OptionError, match="top_p"):
        md.load(folder).generate("the", max_new_tokens=1, do_sample=True)


def test_a_right_file_with_another_key_in_an_entry(tmp_path):
    """Formats grow: what is not known and does no harm is passed over."""
    header, data = entries({"a": np.zeros(2)})
    header["a"]["comment"] = "hello"
    path = tmp_path / "x.safetensors"
    path.write_bytes(pack(json.dumps(header).encode() + b"   ", data))
    assert read_header(path)["a"].read(np.dtype("float32")).tolist() == [0, 0]
