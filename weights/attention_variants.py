"""GPT-2 and BART with G key/value heads for H query heads, any head widths, a local window: in torch, for training.

The models are transformers', with their attention replaced (Shazeer 2019, section 3). What is particular to one
stands in its config under minidecode's names (num_key_value_heads, key_width, value_width, attention_window), and the
parameters have the names and shapes that minidecode reads: it loads what `save_pretrained` writes. transformers does
not, unless the settings are those of its own attention.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import BartConfig, BartForConditionalGeneration, GPT2Config, GPT2LMHeadModel
from transformers.pytorch_utils import Conv1D

from minidecode import models
from minidecode.ops import Heads


def attend(q_BNX, k_BMX, v_BMX, h: Heads, seen=None) -> torch.Tensor:
    """softmax(q k^T / sqrt(K)) v for each of H query heads; H / G of them read one key/value head. -> (B, N, H U).

    seen: true where a query may look at a key, an array that broadcasts to (B, H, N, M); None: everywhere. Composed
    of products and a softmax: torch's fused attention takes two to three times as long to train on a CPU with heads
    this small.
    """
    q_BHNK = h.scale * q_BNX.unflatten(-1, (h.H, h.K)).transpose(1, 2)
    k_BHMK = k_BMX.unflatten(-1, (h.G, h.K)).transpose(1, 2).repeat_interleave(h.H // h.G, dim=1)
    v_BHMU = v_BMX.unflatten(-1, (h.G, h.U)).transpose(1, 2).repeat_interleave(h.H // h.G, dim=1)
    scores_BHNM = q_BHNK @ k_BHMK.transpose(2, 3)
    if seen is not None:
        scores_BHNM = scores_BHNM.masked_fill(~seen, -torch.inf)
    return (scores_BHNM.softmax(dim=3).to(v_BHMU.dtype) @ v_BHMU).transpose(1, 2).flatten(2)


def look_back(N: int, window: int | None, device: torch.device) -> torch.Tensor:
    """(N, N): a position sees itself and those before it; with a window, so many of them, its own included."""
    seen_NN = torch.ones(N, N, dtype=torch.bool, device=device).tril()
    return seen_NN if window is None else seen_NN.triu(1 - window)


class GPT2Attention(nn.Module):
    """Takes the place of transformers' module of this name: sentences without padding, no cache."""

    def __init__(self, config: GPT2Config, h: Heads):
        super().__init__()
        self.h = h
        self.c_attn = Conv1D(h.H * h.K + h.G * (h.K + h.U), config.n_embd)  # all queries, all keys, all values
        self.c_proj = Conv1D(config.n_embd, h.H * h.U)
        self.resid_dropout = nn.Dropout(config.resid_pdrop)
        nn.init.normal_(self.c_attn.weight, std=config.initializer_range)
        nn.init.normal_(self.c_proj.weight, std=config.initializer_range / (2 * config.n_layer) ** 0.5)

    def forward(self, x_BND, **of_transformers) -> tuple[torch.Tensor, None]:
        h = self.h
        q_BNX, k_BNX, v_BNX = self.c_attn(x_BND).split([h.H * h.K, h.G * h.K, h.G * h.U], dim=2)
        a_BNX = attend(q_BNX, k_BNX, v_BNX, h, look_back(x_BND.shape[1], h.window, x_BND.device))
        return self.resid_dropout(self.c_proj(a_BNX)), None


class BartAttention(nn.Module):
    """Takes the place of transformers' module of this name: targets without padding, no cache."""

    def __init__(self, config: BartConfig, h: Heads, is_causal: bool):
        super().__init__()
        self.h, self.is_causal = h, is_causal
        self.q_proj = nn.Linear(config.d_model, h.H * h.K)
        self.k_proj = nn.Linear(config.d_model, h.G * h.K)
        self.v_proj = nn.Linear(config.d_model, h.G * h.U)
        self.out_proj = nn.Linear(h.H * h.U, config.d_model)
        for linear in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            nn.init.normal_(linear.weight, std=config.init_std)
            nn.init.zeros_(linear.bias)

    def forward(self, x_BND, key_value_states=None, attention_mask=None, **of_transformers):
        source_BMD = x_BND if key_value_states is None else key_value_states
        q_BNX, k_BMX, v_BMX = self.q_proj(x_BND), self.k_proj(source_BMD), self.v_proj(source_BMD)
        if self.is_causal:
            attention_mask = look_back(x_BND.shape[1], self.h.window, x_BND.device)
        return self.out_proj(attend(q_BNX, k_BMX, v_BMX, self.h, attention_mask)), None


def make_gpt2(config: GPT2Config) -> GPT2LMHeadModel:
    """A GPT-2 with the attention that its config describes, random."""
    config.use_cache = False
    model = GPT2LMHeadModel(config)
    c = models.gpt2.GPT2Config.from_json(config.to_dict())
    for block in model.transformer.h:
        block.attn = GPT2Attention(config, c.heads(c.n_head, window=c.attention_window))
    return model


def make_bart(config: BartConfig) -> BartForConditionalGeneration:
    """A BART with the attention that its config describes, random; a window is the decoder's self-attention's alone."""
    config.use_cache = False
    model = BartForConditionalGeneration(config)
    c = models.bart.BartConfig.from_json(config.to_dict())
    for layer in model.model.encoder.layers:
        layer.self_attn = BartAttention(config, c.heads(c.encoder_attention_heads), is_causal=False)
    for layer in model.model.decoder.layers:
        own = c.heads(c.decoder_attention_heads, window=c.attention_window)
        layer.self_attn = BartAttention(config, own, is_causal=True)
        layer.encoder_attn = BartAttention(config, c.heads(c.decoder_attention_heads), is_causal=False)
    return model
