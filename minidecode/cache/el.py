"""EL's caches: hidden states in place of keys and values, for all positions before the first new token.

A decoder that sees a source keeps the encoder's output, once for all of its layers and beams: a 2L-th of what
`SharedCrossCache` keeps (section 3.1.1; the published code keeps it twice, transposed for the scores). A decoder-only
model keeps, in each layer, the hidden states that make the prompt's keys and values: half. What beams generate is kept
as keys and values in both (section 3.2). Since nothing of the input is kept per beam, there is nothing of it to
reorder (section 3.3), and a sentence that leaves the batch takes one array with it: of a source, for all layers.

The halves are those of multi-head attention. A model with few key/value heads has keys and values narrower than the
hidden states, G*(K+U) numbers a position against D, and keeps more this way. So does one whose weights are float16 or
int8: EL computes with W_K and W_V themselves, and each generation makes float32 copies of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from ..device.arrays import fetch_constant
from ..device.low_precision import cast_for_cache, dequantize_weight, dtype_for_heads, unpack_panels
from ..ops import Weight
from .cross import weight_of_layer
from .padding import padding_lengths
from .protocol import CacheSize, ChosenCache, SourceCacheKind
from .split import SplitCache


def key_value_weights(weight: Weight, heads):
    """(w_k_GKD, b_k_GK, w_v_GUD, b_v_GU): of a product whose last G*K and G*U outputs are keys and values.

    Views of its matrix; of a low-precision or packed one float32 copies: they are read outside of the product.
    """
    G, K, U = heads.G, heads.K, heads.U
    weight = unpack_panels(weight)
    keys_and_values = weight.of_outputs(slice(-G * (K + U), None))
    bias_X = keys_and_values.bias
    matrix = dequantize_weight(keys_and_values, weight.computed_in)
    bias_X = np.zeros_like(matrix, shape=G * (K + U)) if bias_X is None else bias_X
    matrix_XD = matrix if weight.layout == "oi" else matrix.T
    return (
        matrix_XD[: G * K].reshape(G, K, -1), bias_X[: G * K].reshape(G, K),
        matrix_XD[G * K :].reshape(G, U, -1), bias_X[G * K :].reshape(G, U),
    )  # fmt: skip


def weights_copied_for_cache(weights, weight: Weight) -> tuple:
    """The weights of `key_value_weights` that are copies, which the cache holds beside the model."""
    w_k_GKD, b_k_GK, w_v_GUD, _ = weights
    is_whole = weight.data.dtype == b_k_GK.dtype and weight.layout != "panels"
    return () if is_whole else (w_k_GKD, w_v_GUD)


class ElCrossCache:
    """A decoder's of the source: the encoder's output as it is, the same array for all layers and beams."""

    is_per_beam: ClassVar[bool] = False
    ops: ClassVar[frozenset[str]] = frozenset()
    op_of_step: ClassVar[str] = "attend_el"

    @classmethod
    def of_layers(cls, ops, weights, source, target_offsets_X, stored_as=None):
        """A cache for each layer, with its part of the weights that make the keys and values of all.

        stored_as is the source's own business, for all of them read what it keeps.
        """
        layers, product = len(weights.blocks), unpack_panels(weights.cross_kv)
        parts = (weight_of_layer(product, layer, layers) for layer in range(layers))
        packed = weights.cross_kv.layout == "panels"
        return [cls(b, part, source, target_offsets_X, packed) for b, part in zip(weights.blocks, parts, strict=True)]

    def __init__(self, block, key_values, source, target_offsets_X, was_packed=False):
        self.query_bias_X, self.heads, self.key_values = block.cross_q.bias, block.cross_heads, key_values
        self.weights = key_value_weights(key_values, block.cross_heads)
        self.copies = (
            (self.weights[0], self.weights[2]) if was_packed else weights_copied_for_cache(self.weights, key_values)
        )
        self.source, self.target_offsets_X = source, target_offsets_X
        self.begin_B = padding_lengths(source.offsets_X, source.N)
        self.one_row_each = bool((np.diff(fetch_constant(target_offsets_X)) == 1).all())  # as where a text begins

    def attend(self, ops, q_RX):
        """Attention of each row to the whole of its source, from the query product without its bias.

        For the logits of whole texts, rows are many: keys and values are built, looked at by all of them, and dropped.
        A text's first token sees the source as the steps do, float16 ones too: there is never a second copy.
        """
        dtype = {} if self.one_row_each else dtype_for_heads(q_RX, self.key_values.data.dtype)
        q_RHK, _, _ = ops.split_heads(q_RX, self.query_bias_X, replace(self.heads, G=0), **dtype)
        if self.one_row_each:
            return ops.attend_el(q_RHK, self.source.pad_once(ops), self.begin_B, *self.weights, self.heads.scale)
        kv_RX = ops.linear(self.source.h_RD, self.key_values)
        _, k_RGK, v_RGU = ops.split_heads(kv_RX, self.key_values.bias, replace(self.heads, H=0), **dtype)
        offsets = self.target_offsets_X, self.source.offsets_X
        return ops.attend_prefill(q_RHK, k_RGK, v_RGU, *offsets, self.heads.scale, False)

    def expand(self, ops, beams: int):
        """Takes one row per beam from here on; nothing is copied for them."""
        self.one_row_each = True
        del self.target_offsets_X
        self.source.pad_once(ops)  # before the steps, which all call the same ops

    def keep_only(self, ops, stays_B, stays_R):
        """The sources of these sentences alone; the first layer that asks takes them for all."""
        self.source.keep_only(ops, stays_B)
        self.begin_B = self.begin_B[stays_B]

    def arrays(self):
        """The array that is held between steps: the source, which all layers share."""
        return (*self.source.arrays(), *self.copies)


class SplitBesideEl(SplitCache):
    """A decoder's own beside a source is the split cache: EL leaves its self-attention as it is (section 3.2)."""

    reads_hidden_states = True
    cross: ClassVar[SourceCacheKind] = ElCrossCache


class ElCache(SplitCache):
    """A decoder-only model's: the prompt's hidden states; after `expand`, also each beam's own keys and values.

    The prompt itself attends by keys and values, which go as soon as it has: with as many queries as positions,
    multi-head attention has fewer operations.
    """

    about = "hidden states of the prompt or source, not its keys and values"
    ops = frozenset({"append_kv", "attend_el_split", "reorder_cache"})
    reads_hidden_states = True
    refuses: ClassVar[Mapping[str, str]] = {
        "is_rotary": "this model rotates its keys by their positions (RoPE), so W_k cannot be folded into the query:"
        " use cache=split, which also stores the prompt once",
        "has_latent": "no hidden state makes the key and value of this model's latent: use cache=split, which also"
        " stores the prompt once",
    }
    beside_source: ClassVar[type[ChosenCache] | None] = SplitBesideEl

    @staticmethod
    def prompt_bytes(size: CacheSize) -> int:
        """Each prompt's hidden states."""
        return size.hidden * size.B * size.N

    @staticmethod
    def bytes_between_steps(size: CacheSize) -> int:
        """Each prompt's hidden states, and what each row generates."""
        return size.hidden * size.B * size.N + size.stored * size.R * size.T

    def __init__(self, block, offsets_X, stored_as=None, N=None):
        super().__init__(block, offsets_X, stored_as, N)
        self.weights = key_value_weights(block.qkv, block.heads)
        self.copies = weights_copied_for_cache(self.weights, block.qkv)

    def append(self, ops, qkv_RX, h_RD):
        """Keeps the prompt's hidden states, and otherwise does what the split cache does."""
        if not self.decoding:
            self.h_RD = cast_for_cache(self.stored_as, h_RD)
        return super().append(ops, qkv_RX, h_RD)

    def cast_to_stored(self):
        """Drops the keys and values that the prompt has attended to; empty arrays keep their types."""
        self.k_RGK, self.v_RGU = self.k_RGK[:0].copy(), self.v_RGU[:0].copy()
        super().cast_to_stored()

    def keep_prompt(self, ops, k_RGK, v_RGU):
        """Hidden states padded on the left, in place of keys and values."""
        self.prompt_h_BND = ops.pad_left(self.h_RD[:, None], self.offsets_X, self.N)[:, 0]
        del self.h_RD

    def keep_only_prompts(self, ops, stays_B):
        """Hidden states, where others have keys and values."""
        self.prompt_h_BND = ops.gather_rows(self.prompt_h_BND, stays_B)

    def attend_step(self, ops, q_RHK):
        """The prompt by its hidden states, the rest by keys and values."""
        prompt_begin_B, begin_R = self.first_seen()
        return ops.attend_el_split(
            q_RHK, self.prompt_h_BND, prompt_begin_B, *self.weights, self.k_RGTK, self.v_RGTU, begin_R, self.end_R,
            self.heads.scale,
        )  # fmt: skip

    def arrays(self):
        """The arrays that are held between steps."""
        kept = (self.prompt_h_BND, self.k_RGTK, self.v_RGTU) if self.decoding else (self.h_RD,)
        return (*kept, *self.copies)
