"""The files of a GPT-2 with a latent: which tensors they hold, by Optimus's names, and where each goes."""

from __future__ import annotations

from typing import Any

from ..ops import Weight
from . import bert_tensors, gpt2_tensors
from .gpt2_latent import Weights

PREFIX = ""
IGNORED = r"encoder\.embeddings\.position_ids|decoder\.transformer\.h\.\d+\.attn\.(bias|masked_bias)"
LAYER = r"(encoder\.encoder\.layer|decoder\.transformer\.h)\.\d+\."  # what the names of a layer begin with
OPTIONAL = ()
POSTERIOR, MEMORY, ADDEND = (
    f"{name}.weight" for name in ("encoder.linear", "decoder.transformer.linear", "decoder.transformer.linear_emb")
)


def of_encoder(name: str) -> str:
    """The name, in this file, of a tensor of BERT's."""
    return f"encoder.{name}"


def of_decoder(name: str) -> str:
    """The name, in this file, of a tensor of GPT-2's."""
    return f"decoder.{name}" if name == "lm_head.weight" else f"decoder.transformer.{name}"


def tied(c) -> dict[str, str]:
    """Tensors that a file may store although they are copies: copy -> original."""
    return {of_decoder(copy): of_decoder(original) for copy, original in gpt2_tensors.tied(c).items()}


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`."""
    D, Z, h = c.n_embd, c.latent_size, c.heads(c.n_head)
    shapes = {of_encoder(name): shape for name, shape in bert_tensors.tensor_shapes(c.encoder).items()}
    shapes |= {of_decoder(name): shape for name, shape in gpt2_tensors.tensor_shapes(c).items()}
    return shapes | {POSTERIOR: (2 * Z, D), MEMORY: (c.n_layer * h.G * h.K, Z), ADDEND: (D, Z)}


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward pass reads."""
    encoder = {name: tensors[of_encoder(name)] for name in bert_tensors.tensor_shapes(c.encoder)}
    decoder = {name: tensors[of_decoder(name)] for name in gpt2_tensors.tensor_shapes(c)}
    decoder["wpe.weight"] = decoder["wpe.weight"][1:]
    posterior, memory, addend = (Weight(tensors[name], layout="oi") for name in (POSTERIOR, MEMORY, ADDEND))
    return Weights(
        **vars(gpt2_tensors.bind(c, decoder)), encoder=bert_tensors.bind(c.encoder, encoder), posterior=posterior,
        memory=memory, addend=addend,
    )  # fmt: skip
