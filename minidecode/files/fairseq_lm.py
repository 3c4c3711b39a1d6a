"""fairseq's language models (`transformer_lm_gpt` and its like) as GPT-2, where that computes the same.

GPT-2 does not scale its embeddings, and its positions are a table. A scale goes into the table of tokens, which fairseq
multiplies and rounds in the same way; the head keeps the plain one. Sinusoids or zeros become the table of positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CheckpointError, shown
from ..models import gpt2
from ..models.config import make_sinusoid_table
from ..models.fairseq import FairseqConfig, sinusoid_frequencies
from ..models.gpt2 import GPT2Config
from .checkpoint import match_tensors
from .stored import Stored

SIZES = ("decoder_embed_dim", "decoder_ffn_embed_dim", "decoder_layers", "decoder_attention_heads")
DIFFER = ("decoder_learned_pos", "share_decoder_input_output_embed", "activation_fn")  # by architecture, as sizes do
FLAGS = ("decoder_learned_pos", "share_decoder_input_output_embed", "no_scale_embedding", "add_bos_token",
         "no_token_positional_embeddings", "decoder_normalize_before")  # fmt: skip
REFUSED = FairseqConfig.REFUSED | {
    "character_embeddings": "embeddings made of characters",
    "layernorm_embedding": "a norm after the embeddings, which GPT-2 does not have",
    "no_decoder_final_norm": "GPT-2 has a norm after its last layer",
    "decoder_xformers_att_config": "attention of xFormers",
}
OLDEST = ("no_tie_adaptive_proj", "decoder_final_norm")  # settings of old that say whether there is a final norm
SETTINGS = {*SIZES, *DIFFER, *FLAGS, *REFUSED, *OLDEST, "max_target_positions", "tokens_per_sample"}
OF_LAYER = {  # GPT-2's name -> fairseq's; of several, one behind the other
    "ln_1": ("self_attn_layer_norm",),
    "attn.c_attn": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attn.c_proj": ("self_attn.out_proj",),
    "ln_2": ("final_layer_norm",),
    "mlp.c_fc": ("fc1",),
    "mlp.c_proj": ("fc2",),
}
TOKENS, POSITIONS = "decoder.embed_tokens.weight", "decoder.embed_positions.weight"
HEAD = "decoder.output_projection.weight"
LAYER = r"decoder\.layers\.\d+\."
IGNORED = r"decoder\.(version|embed_positions\.(_float_tensor|weights))"
FIRST = 2  # the row of the first position: padding has 1


@dataclass(frozen=True)
class LanguageModel:
    """A checkpoint's model under GPT-2's names. config, fields: the same, as an object and as config.json has it."""

    config: GPT2Config
    fields: dict[str, Any]
    stored: dict[str, Stored]  # under fairseq's names
    scale: float  # of embeddings
    positions: str  # "learned", "sinusoids" or "none"

    @classmethod
    def from_checkpoint(cls, path: Path, settings: dict[str, Any], in_file: dict[str, Stored]) -> LanguageModel:
        """Raises CheckpointError on settings that GPT-2 has not, and on tensors that do not fit them."""
        flags = check_settings(path, settings, in_file)
        table, is_tied = in_file[TOKENS], flags["share_decoder_input_output_embed"]
        positions = "learned" if flags["decoder_learned_pos"] else "sinusoids"
        positions = "none" if flags["no_token_positional_embeddings"] else positions
        scaled = not flags["no_scale_embedding"]
        activation = settings["activation_fn"]
        fields = {
            "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": table.shape[0],
            "n_embd": settings["decoder_embed_dim"], "n_inner": settings["decoder_ffn_embed_dim"],
            "n_layer": settings["decoder_layers"], "n_head": settings["decoder_attention_heads"],
            "n_positions": most_positions(path, settings, in_file, positions),
            "activation_function": FairseqConfig.ACTIVATIONS.get(str(activation), activation),
            "layer_norm_epsilon": 1e-5, "tie_word_embeddings": is_tied and not scaled,
        }  # fmt: skip
        try:
            config = GPT2Config.from_json(fields)
            config.check_positions("n_positions", config.width)
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {str(error).removeprefix('config.json: ')}") from None
        if positions == "sinusoids" and config.width < 4:
            raise CheckpointError(f"{path}: decoder_embed_dim {config.width} is too small for sinusoids: 4 is least")
        stored = match_tensors(
            path, in_file, source_shapes(config, positions, is_tied), prefix="", ignored=IGNORED, layer=LAYER,
            tied={HEAD: TOKENS} if is_tied else {}, optional=(), is_whole=True,
        )  # fmt: skip
        return cls(config, fields, stored, math.sqrt(config.width) if scaled else 1.0, positions)

    def layout(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """GPT-2's tensors: dtype and shape of each."""
        table = self.stored[TOKENS].dtype
        exact = "F64" if table == "F64" else "F32"
        kept = {"wte.weight": exact if self.scale != 1 else table, "lm_head.weight": table}
        kept |= {"wpe.weight": self.stored[POSITIONS].dtype if self.positions == "learned" else exact}
        shapes = gpt2.tensor_shapes(self.config)
        return {
            name if name == "lm_head.weight" else gpt2.PREFIX + name: (
                kept[name] if name in kept else self.stored[sources_of_tensor(name)[0]].dtype, shape
            ) for name, shape in shapes.items()
        }  # fmt: skip

    def read(self, name: str) -> np.ndarray:
        """The numbers of a tensor of `layout`."""
        name = name.removeprefix(gpt2.PREFIX)
        config = self.config
        if name == "wpe.weight" and self.positions == "none":
            return np.zeros((config.context, config.width), np.float32)
        if name == "wpe.weight" and self.positions == "sinusoids":
            return make_sinusoid_table(FIRST, config.context, sinusoid_frequencies(config.width), config.width)
        parts = [
            self.stored[source]
            for source in (sources_of_tensor(name) if name != "lm_head.weight" else [self.head_name])
        ]
        numbers = np.concatenate([part.read(np.dtype(np.float64 if part.dtype == "F64" else np.float32))
                                  for part in parts])  # fmt: skip
        if name == "wpe.weight":
            return numbers[FIRST:]
        if name == "wte.weight":
            return numbers * numbers.dtype.type(self.scale)
        return numbers.T if is_transposed(name) else numbers

    @property
    def head_name(self) -> str:
        return HEAD if HEAD in self.stored else TOKENS


def check_settings(path: Path, settings: dict[str, Any], in_file: dict[str, Stored]) -> dict[str, bool]:
    """The flags of a checkpoint. Raises CheckpointError on what is missing, and on what makes it another kind of model.

    Of sizes, and of flags that differ between architectures, no default is assumed: fairseq writes them all.
    """
    if TOKENS not in in_file or len(in_file[TOKENS].shape) != 2:
        raise CheckpointError(f"{path} has no {TOKENS} of (words, width): it is no language model of this kind")
    if missing := next((name for name in (*SIZES, *DIFFER) if name not in settings), None):
        raise CheckpointError(f"{path} does not say its {missing}: use a checkpoint that fairseq-train wrote")
    defaults = {"decoder_normalize_before": True}
    flags = {name: settings.get(name, defaults.get(name, False)) for name in FLAGS}
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise CheckpointError(f"{path}: {name} must be true or false, not {shown(value, 60)}")
    ends_plain = "no_tie_adaptive_proj" in settings or settings.get("no_decoder_final_norm")
    if "decoder_final_norm" in settings:
        ends_plain = not settings["decoder_final_norm"]
    for name, what in REFUSED.items():
        if (value := ends_plain if name == "no_decoder_final_norm" else settings.get(name)) not in (None, False, 0):
            raise CheckpointError(f"{path}: {name}={shown(value, 60)} is not supported: {what}")
    if not flags["decoder_normalize_before"]:
        raise CheckpointError(
            f"{path}: decoder_normalize_before=False is not supported: GPT-2 has its norms before each layer"
        )
    width = settings["decoder_embed_dim"]
    for name in ("decoder_input_dim", "decoder_output_dim"):
        if settings.get(name, width) != width:
            raise CheckpointError(
                f"{path}: {name}={shown(settings[name], 60)} with decoder_embed_dim={shown(width, 60)} is not "
                "supported: all widths must be equal"
            )
    return flags


def most_positions(path: Path, settings: dict[str, Any], in_file: dict[str, Stored], positions: str) -> Any:
    """How many tokens the model looks at: as many as a learned table has rows, or else as training was told."""
    if positions == "learned":
        table = in_file.get(POSITIONS)
        if table is None or len(table.shape) != 2 or table.shape[0] <= FIRST:
            raise CheckpointError(f"{path} has no {POSITIONS} with rows from {FIRST} on: use another checkpoint")
        return table.shape[0] - FIRST
    most = settings.get("max_target_positions", settings.get("tokens_per_sample"))
    if most is None:
        raise CheckpointError(
            f"{path} does not say its max_target_positions: use a checkpoint that fairseq-train wrote"
        )
    return most


def sources_of_tensor(name: str) -> list[str]:
    """The tensors of fairseq that a tensor of GPT-2 is made of, one behind the other."""
    known = {"wte.weight": [TOKENS], "wpe.weight": [POSITIONS], "lm_head.weight": [HEAD]}
    if name in known:
        return known[name]
    part, _, kind = name.rpartition(".")
    if part == "ln_f":
        return [f"decoder.layer_norm.{kind}"]
    _, i, of_layer = part.split(".", 2)
    return [f"decoder.layers.{i}.{source}.{kind}" for source in OF_LAYER[of_layer]]


def is_transposed(name: str) -> bool:
    """Whether a tensor is a matrix of a layer: GPT-2 stores (in, out), fairseq (out, in)."""
    return name.endswith("weight") and (".attn." in name or ".mlp." in name)


def source_shapes(config: GPT2Config, positions: str, is_tied: bool) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a checkpoint."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, shape in gpt2.tensor_shapes(config).items():
        if name == "lm_head.weight" or (name == "wpe.weight" and positions != "learned"):
            continue
        shape = shape[::-1] if is_transposed(name) else shape
        rows = shape[0] + (FIRST if name == "wpe.weight" else 0)
        names = sources_of_tensor(name)
        shapes |= dict.fromkeys(names, (rows // len(names), *shape[1:]))
    return shapes if is_tied else shapes | {HEAD: shapes[TOKENS]}
