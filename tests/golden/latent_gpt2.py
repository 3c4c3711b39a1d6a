"""A GPT-2 with a latent as transformers computes it. transformers has no such model, but what it is made of.

Its GPT-2 takes a cache of one position, embeddings with the addend, and positions from 1; its BERT reads the latents.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertModel, DynamicCache, GenerationConfig, GPT2Config, GPT2LMHeadModel

OF_GPT2 = (
    "vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner", "activation_function", "layer_norm_epsilon",
    "scale_attn_weights", "scale_attn_by_inverse_layer_idx", "tie_word_embeddings", "bos_token_id", "eos_token_id",
    "pad_token_id",
)  # fmt: skip


class LatentGPT2(GPT2LMHeadModel):
    """transformers' GPT-2 behind a latent, z_Z. It reads the whole text at every step, so that a search may run it."""

    z_Z: torch.Tensor
    memory: torch.Tensor
    addend: torch.Tensor

    def forward(self, input_ids, **_):
        c, B = self.config, len(input_ids)
        memory = (self.memory @ self.z_Z).view(c.n_layer, c.n_head, -1)
        kv = [m[None, :, None].expand(B, -1, -1, -1) for m in memory]
        return super().forward(
            inputs_embeds=self.transformer.wte(input_ids) + self.addend @ self.z_Z,
            past_key_values=DynamicCache([(k, k) for k in kv]), use_cache=True,
            position_ids=torch.arange(1, input_ids.shape[1] + 1)[None],
        )  # fmt: skip


def load_latent(folder: Path, dtype=torch.float64) -> tuple[LatentGPT2, BertModel, torch.Tensor]:
    """(the decoder, the encoder, the product behind it) of a folder."""
    fields = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tensors = {name: tensor.to(dtype) for name, tensor in load_file(folder / "model.safetensors").items()}

    def parts_of(side: str) -> dict[str, torch.Tensor]:
        return {name.removeprefix(side): tensor for name, tensor in tensors.items() if name.startswith(side)}

    decoder = LatentGPT2(GPT2Config(**{name: fields[name] for name in OF_GPT2 if name in fields})).to(dtype)
    decoder.memory = tensors.pop("decoder.transformer.linear.weight")
    decoder.addend = tensors.pop("decoder.transformer.linear_emb.weight")
    linear = tensors.pop("encoder.linear.weight")
    own = parts_of("decoder.")
    if fields.get("tie_word_embeddings", True):
        own["lm_head.weight"] = own["transformer.wte.weight"]
    decoder.load_state_dict(own, strict=True)
    if (folder / "generation_config.json").exists():
        decoder.generation_config = GenerationConfig.from_pretrained(folder)
    encoder = BertModel(
        BertConfig(
            vocab_size=fields["vocab_size"], hidden_size=fields["n_embd"], num_hidden_layers=fields["encoder_layers"],
            num_attention_heads=fields["n_head"], intermediate_size=fields.get("n_inner") or 4 * fields["n_embd"],
            type_vocab_size=1, max_position_embeddings=fields["n_positions"],
            hidden_act=fields.get("activation_function", "gelu_new"),
            layer_norm_eps=fields.get("layer_norm_epsilon", 1e-5),
        )
    ).to(dtype)  # fmt: skip
    encoder.load_state_dict(parts_of("encoder."), strict=True)
    return decoder.eval(), encoder.eval(), linear
