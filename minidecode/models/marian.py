"""Marian: BART's forward passes and tensors, without a norm behind the embeddings, and with computed positions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..errors import CheckpointError
from .bart import (
    LAYER,
    OPTIONAL,
    PREFIX,
    BartConfig,
    bind,
    encode,
    forward,
    ignored_tensors,
    lm_head,
    tensor_shapes,
    tied_tensors,
)
from .config import make_sinusoid_table

__all__ = [
    "LAYER", "OPTIONAL", "PREFIX", "MarianConfig", "bind", "encode", "forward", "ignored_tensors", "lm_head",
    "tensor_shapes", "tied_tensors",
]  # fmt: skip

# ---- config.json -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MarianConfig(BartConfig):
    """The fields of a Marian `config.json`: BART's, without a norm behind the embeddings, and with sinusoids."""

    SIZES = (*BartConfig.SIZES, "encoder_vocab_size")
    FLAGS = (*BartConfig.FLAGS, "share_encoder_decoder_embeddings")
    FIXED: ClassVar[dict[str, bool]] = {
        "normalize_before": False, "normalize_embedding": False, "add_final_layer_norm": False,
        "static_position_embeddings": True,
    }  # fmt: skip

    vocab_size: int = 58101  # the target's, which config.json calls decoder_vocab_size
    encoder_vocab_size: int = 58101  # config.json's vocab_size
    pad_token_id: int | None = 58100
    share_encoder_decoder_embeddings: bool = True
    padding_in_head: bool = False  # ours

    def __post_init__(self):
        super().__post_init__()
        self.check_positions("max_position_embeddings", self.width)
        if self.share_encoder_decoder_embeddings and self.vocab_size != self.encoder_vocab_size:
            raise CheckpointError(
                f"config.json: share_encoder_decoder_embeddings needs one vocabulary, and vocab_size is "
                f"{self.encoder_vocab_size} and decoder_vocab_size {self.vocab_size}: one of the three is not this "
                "model's"
            )

    @classmethod
    def from_json(cls, fields: dict[str, Any]):
        source = fields.get("vocab_size", cls.vocab_size)
        target = fields.get("decoder_vocab_size")
        target = source if target is None else target
        return super().from_json(fields | {"vocab_size": target, "encoder_vocab_size": source})

    def for_live_model(self) -> MarianConfig:
        """With the padding, which is in transformers' softmax."""
        return replace(self, padding_in_head=True)

    @property
    def source_vocab_size(self) -> int:
        return self.encoder_vocab_size

    @property
    def shares_vocabulary(self) -> bool:
        """Two tables of embeddings are of two vocabularies, which may have the same size."""
        return self.share_encoder_decoder_embeddings

    @property
    def generated_vocab_size(self) -> int:
        """All tokens but the padding, if it is the last one.

        The converter from Marian to transformers added that row of zeros, for targets to begin with. transformers has
        it in its softmax: so a live model of transformers has it here (padding_in_head).
        """
        return self.vocab_size - (self.pad_token_id == self.vocab_size - 1 and not self.padding_in_head)

    @property
    def table_names(self) -> tuple[str, str, str]:
        """The names of the tensors that hold the tokens of the source, those of the target, and the head."""
        if self.share_encoder_decoder_embeddings or not self.tie_word_embeddings:
            return super().table_names
        return "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.embed_tokens.weight"

    def sinusoids(self) -> np.ndarray:
        """The table of positions: w_i = 10000^(-2i/D), from position 0. An odd width has one sine more than cosines."""
        frequency_X = 10000.0 ** (-2 * np.arange((self.width + 1) // 2) / self.width)
        return make_sinusoid_table(0, self.context, frequency_X, 2 * frequency_X.size)[:, : self.width]
