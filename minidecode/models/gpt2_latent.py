"""GPT-2 with a latent (Optimus, Li et al. 2020): the forward pass of the decoder, and what it makes of a latent z."""

from __future__ import annotations

from dataclasses import dataclass

from ..ops import Weight
from . import bert, gpt2
from .gpt2 import layers, lm_head
from .products import product

__all__ = ["Weights", "forward", "latent", "lm_head", "posterior"]


@dataclass(frozen=True)
class Weights(gpt2.Weights):
    """wpe_ND begins at position 1: position 0 is the latent's."""

    encoder: bert.Weights
    posterior: Weight  # pooled rows of the encoder -> mean and log variance of z
    memory: Weight  # z -> for each layer a vector that is both key and value of position 0
    addend: Weight  # z -> what is added to each embedding


def forward(w: Weights, ids_R, pos_R, caches, ops, pick_R=None):
    """Token ids and positions, one row each -> h_RD, which `lm_head` makes into logits; of the rows in pick_R alone.

    GPT-2's forward pass, where each row's sentence adds a vector to the embedding, and where caches begin with a
    position that no token has (cache/latent.py).
    """
    first_ln = w.blocks[0].ln_1
    x_RD, _ = ops.embed_norm(ids_R, pos_R, w.wte_VD, w.wpe_ND, 1.0, first_ln)
    x_RD, h_RD = ops.residual_norm(x_RD, caches[0].addend(ops), None, first_ln)
    return layers(w, x_RD, h_RD, caches, ops, pick_R)


def latent(w: Weights, z_BZ, ops):
    """(memory_BX, addend_BD) of each sentence: keys and values of position 0, layer after layer; what is added."""
    return product(ops, z_BZ, w.memory), product(ops, z_BZ, w.addend)


def posterior(w: Weights, x_RD, ops):
    """First rows of texts, as the encoder gives them -> mean and log variance of z, side by side."""
    return product(ops, bert.pooled(w.encoder, x_RD, ops), w.posterior)
