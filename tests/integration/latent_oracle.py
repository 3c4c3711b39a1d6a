"""A GPT-2 with a latent, in float64 and over whole texts: from the equations of Optimus (Li et al. 2020), not our code.

z gives layer l the vector m_l, a slice of linear(z). Attention sees m_l, as key and as value, in front of the text.
Position i of the text (from 1) embeds as wte[token] + wpe[i] + linear_emb(z).
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from toy_folder import write_json, write_safetensors, write_tokenizer

from minidecode.models.gpt2_latent import GPT2LatentConfig, tensor_shapes

# What differs from the fields below; widths are odd, so that no two dimensions are equal by chance.
MODELS: dict[str, dict] = {
    "plain": {},
    "one-head": {"n_embd": 7, "n_head": 1, "latent_size": 3},
    "many-heads": {"n_embd": 20, "n_head": 5, "n_layer": 1, "n_inner": 9},
    "deep": {"n_layer": 5, "encoder_layers": 3, "latent_size": 2},
    "three-layers": {"n_layer": 3, "n_head": 4, "n_embd": 20},
    "untied": {"tie_word_embeddings": False, "activation_function": "relu"},
    "wide-latent": {"latent_size": 33, "n_embd": 10, "n_head": 2},
    "multi-query": {"num_key_value_heads": 1, "n_embd": 18, "n_head": 3},
    "grouped": {"num_key_value_heads": 2, "n_embd": 24, "n_head": 4, "activation_function": "gelu"},
    "unscaled": {"scale_attn_weights": False, "layer_norm_epsilon": 1e-3},
    "by-layer": {"scale_attn_by_inverse_layer_idx": True, "n_layer": 4},
    "narrow-heads": {"key_width": 5, "value_width": 5, "n_embd": 12, "n_head": 2},
    "window": {"attention_window": 4, "n_inner": 11},
}
FIELDS = {
    "model_type": "gpt2_latent", "vocab_size": 260, "n_positions": 24, "n_embd": 12, "n_layer": 2, "n_head": 3,
    "n_inner": 17, "latent_size": 5, "encoder_layers": 1, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1,
}  # fmt: skip


def write_model(folder: Path, name: str, **changes) -> Path:
    """A folder of random weights, wide enough that each latent and each prompt goes another way."""
    fields = FIELDS | MODELS[name] | changes
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(list(name.encode()))
    tensors = {}
    for tensor, shape in tensor_shapes(GPT2LatentConfig.from_json(fields)).items():
        is_gain = tensor.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight", "LayerNorm.weight"))
        tensors[tensor] = rng.normal(float(is_gain), 0.35, shape).astype(np.float32)
    write_json(folder / "config.json", fields)
    write_safetensors(folder / "model.safetensors", tensors)
    write_tokenizer(folder)
    return folder


class Oracle:
    """The model of a folder, by the names in its file."""

    def __init__(self, folder: Path):
        self.fields = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.tensors = {
            name: tensor.astype(np.float64) for name, tensor in load_file(folder / "model.safetensors").items()
        }

    def logits(self, ids, z_Z) -> np.ndarray:
        """logits_NV of a text."""
        c, t = self.fields, self.decoder
        N, L, H, eps = len(ids), c["n_layer"], c["n_head"], c.get("layer_norm_epsilon", 1e-5)
        G, K = c.get("num_key_value_heads", H), c.get("key_width", c["n_embd"] // H)
        memory_LGK = (t("linear.weight") @ z_Z).reshape(L, G, K)
        x_ND = t("wte.weight")[ids] + t("wpe.weight")[1 : N + 1] + t("linear_emb.weight") @ z_Z
        back_NM = np.arange(1, N + 1)[:, None] - np.arange(N + 1)
        hidden_NM = (back_NM < 0) | (back_NM >= c.get("attention_window", N + 2))
        for i in range(L):
            h_ND = normed(x_ND, t(f"h.{i}.ln_1.weight"), t(f"h.{i}.ln_1.bias"), eps)
            qkv_NX = h_ND @ t(f"h.{i}.attn.c_attn.weight") + t(f"h.{i}.attn.c_attn.bias")
            q_NX, k_NX, v_NX = np.split(qkv_NX, [H * K, (H + G) * K], axis=1)
            scale = K**-0.5 if c.get("scale_attn_weights", True) else 1.0
            scale /= i + 1 if c.get("scale_attn_by_inverse_layer_idx") else 1
            heads = []
            for head in range(H):
                g = head // (H // G)
                k_MK, v_MK = (
                    np.concatenate([memory_LGK[i, g][None], rows[:, g * K : (g + 1) * K]]) for rows in (k_NX, v_NX)
                )
                scores_NM = q_NX[:, head * K : (head + 1) * K] @ k_MK.T * scale
                scores_NM[hidden_NM] = -np.inf
                heads.append(softmaxed(scores_NM) @ v_MK)
            x_ND = x_ND + np.concatenate(heads, axis=1) @ t(f"h.{i}.attn.c_proj.weight") + t(f"h.{i}.attn.c_proj.bias")
            h_ND = normed(x_ND, t(f"h.{i}.ln_2.weight"), t(f"h.{i}.ln_2.bias"), eps)
            f_NF = self.activated(h_ND @ t(f"h.{i}.mlp.c_fc.weight") + t(f"h.{i}.mlp.c_fc.bias"))
            x_ND = x_ND + f_NF @ t(f"h.{i}.mlp.c_proj.weight") + t(f"h.{i}.mlp.c_proj.bias")
        h_ND = normed(x_ND, t("ln_f.weight"), t("ln_f.bias"), eps)
        head_VD = self.tensors.get("decoder.lm_head.weight", t("wte.weight"))
        return h_ND @ head_VD.T

    def log_probs(self, prompt, text, z_Z) -> np.ndarray:
        """Of each token of a text behind its prompt."""
        ids = [*prompt, *text]
        logits_NV = self.logits(ids, z_Z)[len(prompt) - 1 : -1]
        top_N1 = logits_NV.max(axis=1, keepdims=True)
        log_sum_N = np.log(np.exp(logits_NV - top_N1).sum(axis=1)) + top_N1[:, 0]
        return logits_NV[np.arange(len(text)), text] - log_sum_N

    def posterior(self, ids) -> tuple[np.ndarray, np.ndarray]:
        """(mean_Z, log_variance_Z): BERT's pooled first row, and a product."""
        c, eps = self.fields, self.fields.get("layer_norm_epsilon", 1e-5)
        H, K = c["n_head"], c["n_embd"] // c["n_head"]

        def t(name):
            return self.tensors[f"encoder.{name}"]

        def affine(name, x_ND):
            return x_ND @ t(f"{name}.weight").T + t(f"{name}.bias")

        def norm(name, x_ND):
            return normed(x_ND, t(f"{name}.LayerNorm.weight"), t(f"{name}.LayerNorm.bias"), eps)

        tables = [f"embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type")]
        x_ND = norm("embeddings", t(tables[0])[ids] + t(tables[1])[: len(ids)] + t(tables[2])[0])
        for i in range(c["encoder_layers"]):
            layer, heads = f"encoder.layer.{i}", []
            q_NX, k_NX, v_NX = (affine(f"{layer}.attention.self.{name}", x_ND) for name in ("query", "key", "value"))
            for head in range(H):
                here = slice(head * K, (head + 1) * K)
                heads.append(softmaxed(q_NX[:, here] @ k_NX[:, here].T / math.sqrt(K)) @ v_NX[:, here])
            a_ND = affine(f"{layer}.attention.output.dense", np.concatenate(heads, axis=1))
            x_ND = norm(f"{layer}.attention.output", x_ND + a_ND)
            f_NF = self.activated(affine(f"{layer}.intermediate.dense", x_ND))
            x_ND = norm(f"{layer}.output", x_ND + affine(f"{layer}.output.dense", f_NF))
        return np.split(t("linear.weight") @ np.tanh(affine("pooler.dense", x_ND[0])), 2)

    def decoder(self, name: str) -> np.ndarray:
        return self.tensors[f"decoder.transformer.{name}"]

    def activated(self, f_NF):
        kind = self.fields.get("activation_function", "gelu_new")
        if kind == "relu":
            return np.maximum(f_NF, 0)
        if kind == "gelu":
            return 0.5 * f_NF * (1 + np.vectorize(math.erf)(f_NF / math.sqrt(2)))
        return 0.5 * f_NF * (1 + np.tanh(math.sqrt(2 / math.pi) * (f_NF + 0.044715 * f_NF**3)))


def normed(x_ND, gain_D, bias_D, eps):
    centred_ND = x_ND - x_ND.mean(axis=1, keepdims=True)
    return centred_ND / np.sqrt((centred_ND**2).mean(axis=1, keepdims=True) + eps) * gain_D + bias_D


def softmaxed(scores_NM):
    exp_NM = np.exp(scores_NM - scores_NM.max(axis=1, keepdims=True))
    return exp_NM / exp_NM.sum(axis=1, keepdims=True)
