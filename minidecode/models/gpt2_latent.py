"""GPT-2 with a latent (Optimus, Li et al. 2020): the forward pass of the decoder, and what it makes of a latent z."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import CheckpointError
from ..ops import Weight
from . import bert, gpt2
from .bert import BertConfig
from .gpt2 import GPT2Config, lm_head, run_layers
from .products import product

__all__ = ["Weights", "bind", "forward", "lm_head", "posterior", "project_latent", "tensor_shapes", "tied_tensors"]


@dataclass(frozen=True)
class Weights(gpt2.Weights):
    """wpe_ND begins at position 1: position 0 is the latent's. `encoder` are a bert.Weights."""

    posterior: Weight  # pooled rows of the encoder -> mean and log variance of z
    addend: Weight  # z -> what is added to each embedding


def forward(w: Weights, ids_R, pos_R, caches, ops, pick_R=None):
    """Token ids and positions, one row each -> h_RD, which `lm_head` makes into logits; of the rows in pick_R alone.

    GPT-2's forward pass, where each row's sentence adds a vector to the embedding, and where caches begin with a
    position that no token has (cache/latent.py).
    """
    first_ln = w.blocks[0].ln_1
    x_RD, _ = ops.embed_norm(ids_R, pos_R, w.wte_VD, w.wpe_ND, 1.0, first_ln)
    x_RD, h_RD = ops.residual_norm(x_RD, caches[0].addend(ops), None, first_ln)
    return run_layers(w, x_RD, h_RD, caches, ops, pick_R)


def project_latent(w: Weights, z_BZ, ops):
    """(memory_BX, addend_BD) of each sentence: keys and values of position 0, layer after layer; what is added."""
    return product(ops, z_BZ, w.memory), product(ops, z_BZ, w.addend)


def posterior(w: Weights, x_RD, ops):
    """First rows of texts, as the encoder gives them -> mean and log variance of z, side by side."""
    return product(ops, bert.apply_pooler(w.encoder, x_RD, ops), w.posterior)


# ---- config.json -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class GPT2LatentConfig(GPT2Config):
    """The fields of a GPT-2 with a latent, which are ours: GPT-2's, and of the BERT that reads latents from texts.

    That BERT has the decoder's vocabulary, positions, widths and heads. Position 0 of the decoder is the latent's, so
    that a text has one position less.
    """

    LAYERS = ("n_layer", "encoder_layers")
    SIZES = (*GPT2Config.SIZES, "latent_size", "encoder_layers")

    latent_size: int = 32
    encoder_layers: int = 12

    def __post_init__(self):
        super().__post_init__()
        heads = self.heads(self.n_head)
        if heads.K != heads.U:
            raise CheckpointError(
                f"config.json: key_width {heads.K} and value_width {heads.U} must be equal in a gpt2_latent, where one "
                "vector is both: leave one of them out"
            )
        if self.n_positions < 2:
            raise CheckpointError("config.json: n_positions must be at least 2: the first is the latent's")

    @property
    def context(self) -> int:
        """The most tokens that the model can look at, beside the latent."""
        return self.n_positions - 1

    @property
    def encoder(self) -> BertConfig:
        """The config of the encoder."""
        assert self.n_inner is not None  # as __post_init__ has left it
        return BertConfig(
            vocab_size=self.vocab_size, hidden_size=self.n_embd, num_hidden_layers=self.encoder_layers,
            num_attention_heads=self.n_head, intermediate_size=self.n_inner, max_position_embeddings=self.n_positions,
            type_vocab_size=1, activation_function=self.activation_function, layer_norm_eps=self.layer_norm_epsilon,
            has_pooler=True,
        )  # fmt: skip


# ---- tensors ---------------------------------------------------------------------------------------------------------
# The files of a GPT-2 with a latent: which tensors they hold, by Optimus's names, and where each goes.

PREFIX = ""
LAYER = r"(encoder\.encoder\.layer|decoder\.transformer\.h)\.\d+\."  # what the names of a layer begin with
OPTIONAL = ()
POSTERIOR, MEMORY, ADDEND = (
    f"{name}.weight" for name in ("encoder.linear", "decoder.transformer.linear", "decoder.transformer.linear_emb")
)


def encoder_name(name: str) -> str:
    """The name, in this file, of a tensor of BERT's."""
    return f"encoder.{name}"


def decoder_name(name: str) -> str:
    """The name, in this file, of a tensor of GPT-2's."""
    return f"decoder.{name}" if name == "lm_head.weight" else f"decoder.transformer.{name}"


def ignored_tensors(c) -> str:
    """What a file may hold and no model uses: buffers of old files."""
    return r"encoder\.embeddings\.position_ids|decoder\.transformer\.h\.\d+\.attn\.(bias|masked_bias)"


def tied_tensors(c) -> dict[str, str]:
    """Tensors that a file may store although they are copies: copy -> original."""
    return {decoder_name(copy): decoder_name(original) for copy, original in gpt2.tied_tensors(c).items()}


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`."""
    D, Z, h = c.n_embd, c.latent_size, c.heads(c.n_head)
    shapes = {encoder_name(name): shape for name, shape in bert.tensor_shapes(c.encoder).items()}
    shapes |= {decoder_name(name): shape for name, shape in gpt2.tensor_shapes(c).items()}
    return shapes | {POSTERIOR: (2 * Z, D), MEMORY: (c.n_layer * h.G * h.K, Z), ADDEND: (D, Z)}


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward pass reads."""
    encoder = {name: tensors[encoder_name(name)] for name in bert.tensor_shapes(c.encoder)}
    decoder = {name: tensors[decoder_name(name)] for name in gpt2.tensor_shapes(c)}
    decoder["wpe.weight"] = decoder["wpe.weight"][1:]
    posterior, memory, addend = (Weight(tensors[name], layout="oi") for name in (POSTERIOR, MEMORY, ADDEND))
    of_latents = {"encoder": bert.bind(c.encoder, encoder), "memory": memory}
    return Weights(**vars(gpt2.bind(c, decoder)) | of_latents, posterior=posterior, addend=addend)
