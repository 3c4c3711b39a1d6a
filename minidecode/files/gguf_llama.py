"""GGUF's `llama` and `qwen2` -> config.json, and which tensor each of the Hugging Face layout is made of."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from ..errors import shown
from .gguf_file import GGUF, DamagedError, UnusableError, text_setting, whole_setting

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}  # GGUF's name -> transformers' class
LAYER = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
LAYER_TENSOR = re.compile(rf"blk\.\d+\.({'|'.join(LAYER)})\.(weight|bias)")
QKV = ("attn_q", "attn_k", "attn_v")  # have biases in every Qwen2
BIASES = {  # of a Llama: the flag of config.json -> the products that have a bias
    "attention_bias": (*QKV, "attn_output"),
    "mlp_bias": ("ffn_gate", "ffn_up", "ffn_down"),
}
# Settings that config.json takes, and those that change nothing. Any other would change what is computed.
READ = {
    "block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon",
    "attention.scale", "rope.freq_base", "rope.dimension_count", "rope.scaling.type", "rope.scaling.factor",
    "rope.scaling.original_context_length", "rope.scaling.finetuned", "rope.scale_linear", "vocab_size",
    "expert_used_count",
}  # fmt: skip
# Settings of other kinds of models, and the values that leave such a model what it is: off, or a factor of 1.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "attention.causal": (True,), "attention.sliding_window": (0,), "attention.clamp_kqv": (0,),
    "attention.max_alibi_bias": (0,), "attn_logit_softcapping": (0,), "final_logit_softcapping": (0,),
    "logit_scale": (0, 1), "residual_scale": (0, 1), "embedding_scale": (0, 1), "pooling_type": (0,),
    "use_parallel_residual": (False,), "rope.scaling.attn_factor": (1,), "rope.scaling.yarn_log_multiplier": (0,),
    "expert_count": (0,), "expert_shared_count": (0,), "leading_dense_block_count": (0,),
    "nextn_predict_layers": (0,), "tensor_data_layout": ("Meta AI original pth",),
}  # fmt: skip
# How Llama 3 stretches its context: the factors of 3.1 and 3.2. The file has only what comes of them.
LLAMA3 = {
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def make_config(g: GGUF) -> dict[str, Any]:
    """config.json of the model. Raises DamagedError on settings that are missing, wrong or not supported."""
    kind = _architecture(g)
    settings = {key: key.removeprefix(f"{kind}.") for key in g.settings if key.startswith(f"{kind}.")}
    for key, name in sorted(settings.items()):
        if name not in READ and not _is_one_of(g.settings[key], NEUTRAL.get(name, ())):
            raise UnusableError(f"{key} = {shown(g.settings[key], 40)} is a kind of {kind} that is not supported")
    L, D, F = (_positive_setting(g, name) for name in ("block_count", "embedding_length", "feed_forward_length"))
    H = _positive_setting(g, "attention.head_count")
    G = _positive_setting(g, "attention.head_count_kv", H)
    K = _positive_setting(g, "attention.key_length", D // H)
    for name, value, wanted in (
        ("attention.value_length", _positive_setting(g, "attention.value_length", D // H), K),
        ("rope.dimension_count", _positive_setting(g, "rope.dimension_count", K), K),
    ):
        if value != wanted:
            raise UnusableError(f"{name} is {value}, and only {wanted} is supported")
    if not _is_one_of(split := g.settings.get("split.count", 0), (0, 1)):
        raise UnusableError(f"split.count is {shown(split, 40)}, and only a model in one file is supported")
    if f"{kind}.attention.scale" in settings and not math.isclose(
        scale := _float_setting(g, "attention.scale"), K**-0.5, rel_tol=1e-6
    ):
        raise UnusableError(f"attention.scale is {scale}, and only {K**-0.5}, of heads of width {K}, is supported")
    if H % G or K % 2:
        raise DamagedError(f"it has {H} heads of width {K} and {G} key/value heads")
    if len(g.tensors) < L:
        raise DamagedError(f"it says that it has {L} layers, and has {len(g.tensors)} tensors in all")
    embedding = g.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise DamagedError("it has no token_embd.weight, the table of embeddings")
    theta = _float_setting(g, "rope.freq_base", 10000.0)
    config: dict[str, Any] = {
        "architectures": [ARCHITECTURES[kind]], "model_type": kind, "vocab_size": embedding.shape[0],
        "hidden_size": D, "intermediate_size": F, "num_hidden_layers": L, "num_attention_heads": H,
        "num_key_value_heads": G, "head_dim": K, "max_position_embeddings": _positive_setting(g, "context_length"),
        "rms_norm_eps": _float_setting(g, "attention.layer_norm_rms_epsilon"), "rope_theta": theta,
        "rope_scaling": _rope_scaling(g, theta, K), "hidden_act": "silu",
        "tie_word_embeddings": "output.weight" not in g.tensors,
    }  # fmt: skip
    if kind == "llama":
        for flag, names in BIASES.items():
            config[flag] = any(f"blk.0.{name}.bias" in g.tensors for name in names)
    return config


def locate_tensors(config: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...], int | None]]:
    """Name -> (name in the GGUF file, shape, heads whose rows are permuted there or None).

    llama.cpp's converter permutes the query and key rows of a Llama, and leaves those of a Qwen2 as they are.
    """
    c, prefix = config, "model."
    D, F, K, V = c["hidden_size"], c["intermediate_size"], c["head_dim"], c["vocab_size"]
    H, G = c["num_attention_heads"], c["num_key_value_heads"]
    shapes = {
        "attn_norm": (D,), "attn_q": (H * K, D), "attn_k": (G * K, D), "attn_v": (G * K, D),
        "attn_output": (D, H * K), "ffn_norm": (D,), "ffn_gate": (F, D), "ffn_up": (F, D), "ffn_down": (D, F),
    }  # fmt: skip
    tensors: dict[str, tuple[str, tuple[int, ...], int | None]] = {
        f"{prefix}embed_tokens.weight": ("token_embd.weight", (V, D), None),
        f"{prefix}norm.weight": ("output_norm.weight", (D,), None),
    }
    if not c["tie_word_embeddings"]:
        tensors["lm_head.weight"] = ("output.weight", (V, D), None)
    is_llama = c["model_type"] == "llama"
    biased = [name for flag, names in BIASES.items() if c[flag] for name in names] if is_llama else QKV
    for i in range(c["num_hidden_layers"]):
        for name, ours in LAYER.items():
            heads = {"attn_q": H, "attn_k": G}.get(name) if is_llama else None
            tensors[f"{prefix}layers.{i}.{ours}.weight"] = (f"blk.{i}.{name}.weight", shapes[name], heads)
            if name in biased:
                tensors[f"{prefix}layers.{i}.{ours}.bias"] = (f"blk.{i}.{name}.bias", shapes[name][:1], heads)
    return tensors


def unpermute_heads(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a query or key projection as the Hugging Face layout has them.

    Within a head, GGUF has the rows that turn together side by side: (K/2, 2). The layout here has the first halves
    of all pairs before the second ones: (2, K/2).
    """
    pairs = rows.reshape(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def _architecture(g: GGUF) -> str:
    """The architecture, with which the keys of its settings begin."""
    kind = text_setting(g.settings, "general.architecture")
    if kind not in ARCHITECTURES:
        raise UnusableError(
            f"its architecture is {shown(kind, 40)}, and only {' and '.join(ARCHITECTURES)} are supported"
        )
    return kind


def _is_one_of(value: Any, values: tuple[Any, ...]) -> bool:
    """Whether a setting is a single value, no list, and one of these."""
    return isinstance(value, bool | int | float | str) and value in values


def _positive_setting(g: GGUF, name: str, default: int | None = None) -> int:
    return whole_setting(g.settings, f"{_architecture(g)}.{name}", 1, 2**31, default)


def _float_setting(g: GGUF, name: str, default: float | None = None) -> float:
    key = f"{_architecture(g)}.{name}"
    value = g.settings.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise DamagedError(f"{key} must be a number above 0, not {shown(value, 40)}")
    return float(value)


def _rope_scaling(g: GGUF, theta: float, K: int) -> dict[str, Any] | None:
    """rope_scaling of config.json, from the settings or from the tensor of Llama 3.

    As in llama.cpp, a factor without a type is linear, and scale_linear is its older name.
    """
    key = f"{_architecture(g)}.rope.scaling.type"
    scaling = text_setting(g.settings, key, "linear")
    if _architecture(g) == "llama" and "rope_freqs.weight" in g.tensors:
        return _llama3_factor(g, theta, K)
    if scaling == "none":
        return None
    if scaling != "linear":
        raise UnusableError(f"{key} is {shown(scaling, 40)}, and only none and linear are supported")
    factor = _float_setting(g, "rope.scaling.factor", _float_setting(g, "rope.scale_linear", 1.0))
    return None if factor == 1 else {"rope_type": "linear", "factor": factor}


def _llama3_factor(g: GGUF, theta: float, K: int) -> dict[str, Any]:
    """The factor that rope_freqs.weight was made with; it divides each frequency."""
    tensor = g.tensors["rope_freqs.weight"]
    if tensor.shape == (K // 2,):
        stored = tensor.read()
        for factor in (8.0, 32.0):
            scaling = LLAMA3 | {"factor": factor}
            if np.allclose(stored, llama3_divisors(theta, K, scaling), rtol=1e-5, atol=0):
                return scaling
    raise UnusableError("rope_freqs.weight is not that of Llama 3.1 or 3.2: other ways of scaling are not supported")


def llama3_divisors(theta: float, K: int, scaling: dict[str, Any]) -> np.ndarray:
    """What divides each of the K/2 frequencies: 1 for short waves, the factor for long ones."""
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    waves = 2 * math.pi * theta ** (2 * np.arange(K // 2) / K)
    smooth = np.clip((scaling["original_max_position_embeddings"] / waves - low) / (high - low), 0, 1)
    return 1 / ((1 - smooth) / scaling["factor"] + smooth)
