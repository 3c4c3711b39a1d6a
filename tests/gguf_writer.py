"""GGUF files: a toy llama piece by piece, so that tests can make each piece lie, and a Qwen2 by the package gguf."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from toy_folder import MERGES, toy_vocabulary

TYPES = {"u4": 4, "i4": 5, "f4": 6, "bool": 7, "u8": 10, "i8": 11, "f8": 12}  # NumPy's name -> GGUF's number
FILE_TYPES = {np.dtype(np.float32): 0, np.dtype(np.float16): 1}
SPECIAL = ["<|im_start|>", "<|im_end|>"]
# What SmolLM2's file says, for a model with 3 layers of width 24, 4 heads of 6, two of keys and values.
LLAMA = {
    "general.architecture": "llama", "general.name": "toy", "llama.block_count": 3, "llama.context_length": 32,
    "llama.embedding_length": 24, "llama.feed_forward_length": 20, "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2, "llama.rope.freq_base": 500.0, "llama.rope.dimension_count": 6,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
}  # fmt: skip
# A Qwen2 whose rows are whole blocks of 32 numbers: the fields of its config.json.
QWEN2 = {
    "model_type": "qwen2", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "rope_theta": 500.0, "rms_norm_eps": 1e-6,
}  # fmt: skip
CHAT = "{% for m in messages %}<|im_start|>{{ m['role'] }}: {{ m['content'] }}<|im_end|>{% endfor %}{{ eos_token }}"
Pieces = list[tuple[str, bytes]]  # what it is, its bytes


def tokenizer_settings() -> dict:
    tokens = [*toy_vocabulary(), *SPECIAL]
    types = [3 if t in ("<|endoftext|>", *SPECIAL) else 1 for t in tokens]
    return {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array(types, np.int32),
        "tokenizer.ggml.merges": [f"{a} {b}" for a, b in MERGES],
        "tokenizer.ggml.bos_token_id": len(tokens) - 2, "tokenizer.ggml.eos_token_id": len(tokens) - 1,
        "tokenizer.ggml.padding_token_id": len(tokens) - 1, "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT,
    }  # fmt: skip


def llama_settings(**changes) -> dict:
    """The settings of the toy; `changes` by key with __ for the dots, None takes one out."""
    settings = LLAMA | tokenizer_settings() | {key.replace("__", "."): value for key, value in changes.items()}
    return {key: value for key, value in settings.items() if value is not None}


def llama_tensors(seed: int = 0, biases: bool = False, tied: bool = True, dtype=np.float32) -> dict[str, np.ndarray]:
    """Random tensors under the Hugging Face layout's names, before the prefix `model.` is put on."""
    rng, D, F, H, G, K = np.random.default_rng(seed), 24, 20, 4, 2, 6
    V = len(tokenizer_settings()["tokenizer.ggml.tokens"])
    shapes = {"embed_tokens.weight": (V, D), "norm.weight": (D,)} | ({} if tied else {"lm_head.weight": (V, D)})
    for i in range(3):
        own = {
            "input_layernorm": (D,), "self_attn.q_proj": (H * K, D), "self_attn.k_proj": (G * K, D),
            "self_attn.v_proj": (G * K, D), "self_attn.o_proj": (D, H * K), "post_attention_layernorm": (D,),
            "mlp.gate_proj": (F, D), "mlp.up_proj": (F, D), "mlp.down_proj": (D, F),
        }  # fmt: skip
        shapes |= {f"layers.{i}.{name}.weight": shape for name, shape in own.items()}
        if biases:
            shapes |= {f"layers.{i}.{name}.bias": shape[:1] for name, shape in own.items() if "proj" in name}
    return {name: rng.normal(0, 0.35, shape).astype(dtype) for name, shape in shapes.items()}


def as_gguf(tensors: dict[str, np.ndarray], permute: bool = True) -> dict[str, np.ndarray]:
    """Those tensors under GGUF's names, q and k permuted as llama.cpp's converter does it."""
    names = {
        "embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    }  # fmt: skip
    found = {}
    for name, tensor in tensors.items():
        where, kind = name.rsplit(".", 1)
        layer, _, rest = (
            where.removeprefix("layers.").partition(".") if where.startswith("layers.") else ("", "", where)
        )
        heads = {"self_attn.q_proj": 4, "self_attn.k_proj": 2}.get(rest)
        if heads and permute:
            halves = tensor.reshape(heads, 2, len(tensor) // heads // 2, *tensor.shape[1:])
            tensor = np.ascontiguousarray(halves.swapaxes(1, 2).reshape(tensor.shape))
        found[f"blk.{layer}.{names[rest]}.{kind}" if layer else f"{names[rest]}.{kind}"] = tensor
    return found


def text_pieces(text: str) -> Pieces:
    data = text.encode()
    return [("length", struct.pack("<Q", len(data))), ("text", data)]


def value_pieces(value) -> Pieces:
    """The type and the value of a setting."""
    if isinstance(value, bool):
        return [("type", struct.pack("<I", 7)), ("number", struct.pack("<B", value))]
    if isinstance(value, str):
        return [("type", struct.pack("<I", 8)), *text_pieces(value)]
    if isinstance(value, list):
        head = [
            ("type", struct.pack("<I", 9)),
            ("type", struct.pack("<I", 8)),
            ("count", struct.pack("<Q", len(value))),
        ]
        return head + [piece for text in value for piece in text_pieces(text)]
    if isinstance(value, np.ndarray):
        kind = TYPES[value.dtype.str[1:]]
        count = struct.pack("<Q", len(value))
        return [("type", struct.pack("<II", 9, kind)), ("count", count), ("numbers", value.tobytes())]
    if isinstance(value, float):
        return [("type", struct.pack("<I", 6)), ("number", struct.pack("<f", value))]
    if value < 0:
        return [("type", struct.pack("<I", 5)), ("number", struct.pack("<i", value))]
    return [("type", struct.pack("<I", 4)), ("number", struct.pack("<I", value))]


def pieces(settings: dict, tensors: dict, version: int = 3, alignment: int = 32) -> Pieces:
    """A whole file. A tensor is an array of float32 or float16, or (type number, shape, bytes)."""
    counts = [("count", struct.pack("<Q", len(listed))) for listed in (tensors, settings)]
    found: Pieces = [("magic", b"GGUF"), ("version", struct.pack("<I", version)), *counts]
    for key, value in settings.items():
        found += [*text_pieces(key), *value_pieces(value)]
    offset, data = 0, b""
    for name, tensor in tensors.items():
        if isinstance(tensor, np.ndarray):
            tensor = FILE_TYPES[tensor.dtype], tensor.shape, tensor.tobytes()
        kind, shape, numbers = tensor
        found += [*text_pieces(name), ("dimensions", struct.pack("<I", len(shape)))]
        found += [("shape", struct.pack("<Q", n)) for n in reversed(shape)]
        found += [("type", struct.pack("<I", kind)), ("offset", struct.pack("<Q", offset))]
        data += numbers + bytes(-len(numbers) % alignment)
        offset = len(data)
    head = sum(len(piece) for _, piece in found)
    return [*found, ("padding", bytes(-head % alignment)), ("data", data)]


def joined(file: Pieces) -> bytes:
    return b"".join(piece for _, piece in file)


def write_llama(path: Path, seed: int = 0, biases: bool = False, tied: bool = True, **changes) -> dict[str, np.ndarray]:
    """A toy llama -> its tensors by the Hugging Face layout's names."""
    tensors = llama_tensors(seed, biases, tied)
    path.write_bytes(joined(pieces(llama_settings(**changes), as_gguf(tensors))))
    return {name if name.startswith("lm_head") else f"model.{name}": tensor for name, tensor in tensors.items()}


def qwen2_settings(**changes) -> dict:
    """The toy's settings as a Qwen2 has them; `changes` as in `llama_settings`."""
    renamed = {key.replace("llama.", "qwen2."): value for key, value in llama_settings().items()}
    renamed |= {"general.architecture": "qwen2", "tokenizer.ggml.pre": "qwen2"}
    renamed |= {key.replace("__", "."): value for key, value in changes.items()}
    return {key: value for key, value in renamed.items() if value is not None}


def qwen2_toy_tensors() -> dict[str, np.ndarray]:
    """The toy's tensors as a Qwen2 has them, under GGUF's names: biases at queries, keys and values alone."""
    found = as_gguf(llama_tensors(biases=True), permute=False)
    return {name: tensor for name, tensor in found.items() if not name.endswith("bias") or name[-6] in "qkv"}


def qwen2_tensors(fields: dict, seed: int = 0) -> dict[str, np.ndarray]:
    """Random tensors of a config.json, by the Hugging Face layout's names before the prefix `model.` is put on."""
    from minidecode.models import llama as names
    from minidecode.models.llama import LlamaConfig

    rng, shapes = np.random.default_rng(seed), names.tensor_shapes(LlamaConfig.from_json(fields))
    return {name: rng.normal(0, 0.35, shape).astype(np.float32) for name, shape in shapes.items()}


def permuted_rows(monkeypatch) -> None:
    """The mutant that takes a Qwen2's rows for a Llama's, which llama.cpp's converter permutes."""
    from minidecode.files import gguf_folder

    right = gguf_folder.locate_tensors

    def wrong(config):
        heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
        return {name: (source, shape, heads.get(source.split(".")[-2])) for name, (source, shape, _) in
                right(config).items()}  # fmt: skip

    monkeypatch.setattr(gguf_folder, "locate_tensors", wrong)


def write_qwen2(
    path: Path, fields: dict, tensors: dict[str, np.ndarray], tokenizer: dict, kind: str = "F32"
) -> dict[str, np.ndarray]:
    """A Qwen2 by the writer of the package gguf, as llama.cpp's converter says it -> what the file holds, dequantised.

    fields: of config.json. tensors, and the result: by the Hugging Face layout's names, without `model.`. tokenizer:
    settings as `tokenizer_settings` makes them. kind: how matrices are stored.
    """
    import gguf

    stored = gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_block_count(fields["num_hidden_layers"])
    writer.add_context_length(fields["max_position_embeddings"])
    writer.add_embedding_length(fields["hidden_size"])
    writer.add_feed_forward_length(fields["intermediate_size"])
    writer.add_head_count(fields["num_attention_heads"])
    writer.add_head_count_kv(fields["num_key_value_heads"])
    writer.add_rope_freq_base(fields["rope_theta"])
    writer.add_layer_norm_rms_eps(fields.get("rms_norm_eps", 1e-6))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokenizer["tokenizer.ggml.tokens"])
    writer.add_token_types(tokenizer["tokenizer.ggml.token_type"].tolist())
    writer.add_token_merges(tokenizer["tokenizer.ggml.merges"])
    writer.add_bos_token_id(tokenizer["tokenizer.ggml.bos_token_id"])
    writer.add_eos_token_id(tokenizer["tokenizer.ggml.eos_token_id"])
    writer.add_pad_token_id(tokenizer["tokenizer.ggml.padding_token_id"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(tokenizer["tokenizer.chat_template"])
    held = {}
    for (name, tensor), own in zip(tensors.items(), as_gguf(tensors, permute=False), strict=True):
        if tensor.ndim == 1 or kind == "F32":
            writer.add_tensor(own, tensor)
            held[name] = tensor
        else:
            data = gguf.quants.quantize(tensor, stored)
            writer.add_tensor(own, data, raw_dtype=stored)
            held[name] = gguf.quants.dequantize(data, stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held
