"""mBART's files: BART's tensors, and a norm at the end of either side."""

from __future__ import annotations

from typing import Any

from ..ops import Norm
from . import bart_tensors
from .bart_tensors import LAYER, OPTIONAL, PREFIX, ignored, tensor_shapes, tied
from .mbart import Stack, Weights

__all__ = ["LAYER", "OPTIONAL", "PREFIX", "bind", "ignored", "tensor_shapes", "tied"]


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward passes read."""

    def stack(side, weights):
        final = Norm(tensors[f"{side}.layer_norm.weight"], tensors[f"{side}.layer_norm.bias"], 1e-5)
        return Stack(**vars(weights), next_ln=(*(block.ln_self for block in weights.blocks[1:]), final))

    w = bart_tensors.bind(c, tensors)
    return Weights(**vars(w) | {"encoder": stack("encoder", w.encoder), "decoder": stack("decoder", w.decoder)})
