"""Toy GPT-2 and BART folders, and safetensors files written byte by byte so that tests can make them lie."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from minidecode.models import bart, gpt2
from minidecode.models.bart import BartConfig
from minidecode.models.gpt2 import GPT2Config

MERGES = [("t", "h"), ("th", "e"), ("Ġ", "the")]
VOCABULARY = 256 + 1 + len(MERGES)  # every byte, <|endoftext|>, and what the merges make
END = 0  # the id of <|endoftext|>
CONFIG = {
    "model_type": "gpt2", "vocab_size": VOCABULARY, "n_positions": 16, "n_embd": 8, "n_layer": 2, "n_head": 2,
    "eos_token_id": END,
}  # fmt: skip
BART_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]  # the first four ids, and the last
BART_CONFIG = {
    "model_type": "bart", "vocab_size": 256 + len(BART_SPECIAL) + len(MERGES), "max_position_embeddings": 16,
    "d_model": 8, "encoder_layers": 1, "encoder_ffn_dim": 12, "encoder_attention_heads": 2,
    "decoder_layers": 2, "decoder_ffn_dim": 10, "decoder_attention_heads": 2,
    "decoder_start_token_id": 2, "eos_token_id": 2,
}  # fmt: skip


def toy_tensors(config: dict, seed: int = 0) -> dict[str, np.ndarray]:
    """Random weights, spread widely enough that different prompts go different ways."""
    if config["model_type"] == "bart":
        shapes = bart.tensor_shapes(BartConfig.from_json(config))
    else:
        shapes = gpt2.tensor_shapes(GPT2Config.from_json(config))
    rng = np.random.default_rng(seed)
    return {name: rng.normal(0, 0.35, shape).astype(np.float32) for name, shape in shapes.items()}


def newline_tensors(config: dict) -> dict[str, np.ndarray]:
    """Weights of a model that says a line break, whatever the prompt."""
    tensors = toy_tensors(config)
    newline = toy_vocabulary()["Ċ"]
    tensors["wte.weight"][newline] = 5.0
    tensors["ln_f.weight"][:] = 0.0
    tensors["ln_f.bias"][:] = 5.0
    return tensors


def toy_vocabulary() -> dict[str, int]:
    from tokenizers import pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<|endoftext|>", *alphabet, *(a + b for a, b in MERGES)]
    return {token: i for i, token in enumerate(tokens)}


def write_tokenizer(folder: Path) -> None:
    """A byte-level BPE, as GPT-2's, of the fewest tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    backend = Tokenizer(models.BPE(toy_vocabulary(), MERGES))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|endoftext|>"])
    backend.save(str(folder / "tokenizer.json"))


def write_bpe(folder: Path) -> None:
    """The same tokenizer in GPT-2's own two files."""
    (folder / "vocab.json").write_text(json.dumps(toy_vocabulary()), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in MERGES), encoding="utf-8")


def pack(header: dict | list | bytes, data: bytes, length: int | None = None) -> bytes:
    """A safetensors file: 8 bytes that give the header's length, the header in JSON, the numbers."""
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


def bfloat16(array: np.ndarray) -> np.ndarray:
    """The upper halves of float32 numbers, which is what bfloat16 keeps of them (rounded towards zero here)."""
    return (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


STORE = {
    "F64": lambda a: a.astype("<f8"), "F32": lambda a: a.astype("<f4"), "F16": lambda a: a.astype("<f2"),
    "BF16": bfloat16, "I64": lambda a: a.astype("<i8"), "BOOL": lambda a: a.astype(bool),
}  # fmt: skip


def entries(tensors: dict[str, np.ndarray], dtype: str | dict[str, str] = "F32") -> tuple[dict, bytes]:
    """(header, data) of a right safetensors file; `dtype` for all, or by name with F32 for the others."""
    header, data = {}, b""
    for name, array in tensors.items():
        stored_as = dtype if isinstance(dtype, str) else dtype.get(name, "F32")
        piece = STORE[stored_as](array).tobytes()
        header[name] = {"dtype": stored_as, "shape": array.shape, "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    return header, data


def write_safetensors(path: Path, tensors: dict[str, np.ndarray], dtype: str | dict[str, str] = "F32") -> None:
    header, data = entries(tensors, dtype)
    text = json.dumps(header).encode()
    path.write_bytes(pack(text + b" " * (-len(text) % 8), data))  # aligned, as the library writes it


def write_shards(folder: Path, tensors: dict[str, np.ndarray], shards: int = 2) -> dict:
    """The tensors dealt out to several files, and the index that says which is where."""
    names, weight_map = list(tensors), {}
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        mine = {name: tensors[name] for name in names[i::shards]}
        write_safetensors(folder / file, mine)
        weight_map |= dict.fromkeys(mine, file)
    index = {"metadata": {}, "weight_map": weight_map}
    write_json(folder / "model.safetensors.index.json", index)
    return index


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def write_folder(folder: Path, tensors: dict[str, np.ndarray] | None = None, dtype="F32", **config) -> Path:
    """A model folder in the Hugging Face layout; `config` changes fields of config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    fields = CONFIG | config
    write_json(folder / "config.json", fields)
    write_safetensors(folder / "model.safetensors", toy_tensors(fields) if tensors is None else tensors, dtype)
    write_tokenizer(folder)
    return folder


def write_bart_folder(folder: Path, tensors: dict[str, np.ndarray] | None = None, **config) -> Path:
    """A BART of the same tokens, each text framed by <s> and </s>, in the layout of old: vocab.json, merges.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    fields = BART_CONFIG | config
    write_json(folder / "config.json", fields)
    write_safetensors(folder / "model.safetensors", toy_tensors(fields) if tensors is None else tensors)
    write_bpe(folder)
    plain = [token for token in toy_vocabulary() if token != "<|endoftext|>"]
    tokens = [*BART_SPECIAL[:4], *plain, BART_SPECIAL[4]]
    write_json(folder / "vocab.json", {token: i for i, token in enumerate(tokens)})
    return folder
