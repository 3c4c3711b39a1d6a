"""What a decoder of an encoder-decoder model keeps of the source: its keys and values.

`CrossCache` is that of fairseq and transformers: a copy per beam. Beams of one sentence hold equal copies, so
following the beams needs no copying here, but the copies are read at every step. `SharedCrossCache` (FastSeq, section
4.1.2) keeps one for all beams of a sentence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from ..device.low_precision import cast_for_cache, dtype_for_heads, unpack_panels
from .padding import padding_lengths, replicate_prompts
from .protocol import SourceCache, StepCache


def weight_of_layer(product, layer: int, layers: int):
    """One layer's part of a product whose outputs are those of all layers side by side."""
    width = product.outputs // layers
    return unpack_panels(product).of_outputs(slice(layer * width, (layer + 1) * width))


class CrossCache:
    """One layer's keys and values of the source: the rows as they come; after `expand`, a padded block per beam."""

    is_per_beam: ClassVar[bool] = True
    ops: ClassVar[frozenset[str]] = frozenset({"project_cross_kv"})
    op_of_step: ClassVar[str] = "attend"

    @classmethod
    def of_layers(cls, ops, weights, source, target_offsets_X, stored_as=None):
        """A cache for each layer: the keys and values of all of them at once (LightSeq's encoder output)."""
        heads, dtype = weights.blocks[0].cross_heads, dtype_for_heads(source.h_RD, stored_as)
        layers = ops.project_cross_kv(source.h_RD, weights.cross_kv, heads, **dtype)
        layout = source.offsets_X, target_offsets_X, stored_as, source.N
        each = zip(weights.blocks, *layers, strict=True)
        return [cls(block, k_RGK, v_RGU, *layout) for block, k_RGK, v_RGU in each]

    def __init__(self, block, k_RGK, v_RGU, source_offsets_X, target_offsets_X, stored_as, N):
        self.query_bias_X, self.heads = block.cross_q.bias, block.cross_heads
        self.source_offsets_X, self.target_offsets_X = source_offsets_X, target_offsets_X
        self.k_RGK, self.v_RGU = k_RGK, v_RGU
        self.decoding, self.stored_as = False, stored_as
        self.N = N  # positions that sources are padded to

    def attend(self, ops, q_RX):
        """Attention of each row to the whole of its source, from the query product without its bias."""
        dtype = {} if self.decoding else dtype_for_heads(q_RX, self.stored_as)
        q_RHK, _, _ = ops.split_heads(q_RX, self.query_bias_X, replace(self.heads, G=0), **dtype)
        if self.decoding:
            return self.attend_step(ops, q_RHK)
        offsets = self.target_offsets_X, self.source_offsets_X
        a_RX = ops.attend_prefill(q_RHK, self.k_RGK, self.v_RGU, *offsets, self.heads.scale, False)
        self.cast_to_stored()
        return a_RX

    def cast_to_stored(self):
        """Keys and values as the steps will read them. On the CPU the first tokens have attended to them unrounded."""
        self.k_RGK, self.v_RGU = cast_for_cache(self.stored_as, self.k_RGK), cast_for_cache(self.stored_as, self.v_RGU)

    def attend_step(self, ops, q_RHK):
        """Each row against the copy of its beam."""
        return ops.attend(q_RHK, self.k_RGMK, self.v_RGMU, self.begin_R, self.end_R, self.heads.scale)

    def expand(self, ops, beams: int):
        """Pads the sources on the left to one length and repeats each for its beams."""
        self.cast_to_stored()
        rows = (self.k_RGK, self.v_RGU, self.source_offsets_X)
        self.k_RGMK, self.v_RGMU, self.begin_R = replicate_prompts(ops, *rows, beams, self.N)
        self.end_R = np.full_like(self.begin_R, self.k_RGMK.shape[2])
        self.decoding = True
        del self.k_RGK, self.v_RGU, self.source_offsets_X, self.target_offsets_X

    def keep_only(self, ops, stays_B, stays_R):
        """Keeps only these rows."""
        self.k_RGMK, self.v_RGMU = ops.gather_rows(self.k_RGMK, stays_R), ops.gather_rows(self.v_RGMU, stays_R)
        self.begin_R, self.end_R = self.begin_R[stays_R], self.end_R[stays_R]

    def arrays(self):
        """The arrays that are held between steps."""
        return (self.k_RGMK, self.v_RGMU) if self.decoding else (self.k_RGK, self.v_RGU)


class SharedCrossCache(CrossCache):
    """One block per sentence, for all of its beams."""

    is_per_beam = False
    op_of_step = "attend_shared"

    def attend_step(self, ops, q_RHK):
        """All beams of a sentence against its one copy."""
        return ops.attend_shared(q_RHK, self.k_BGNK, self.v_BGNU, self.begin_B, self.heads.scale)

    def expand(self, ops, beams: int):
        """Pads the sources on the left to one length; beams need no copy."""
        self.cast_to_stored()
        self.k_BGNK = ops.pad_left(self.k_RGK, self.source_offsets_X, self.N)
        self.v_BGNU = ops.pad_left(self.v_RGU, self.source_offsets_X, self.N)
        self.begin_B = padding_lengths(self.source_offsets_X, self.N)
        self.decoding = True
        del self.k_RGK, self.v_RGU, self.source_offsets_X, self.target_offsets_X

    def keep_only(self, ops, stays_B, stays_R):
        """Keeps only the sources of these sentences."""
        self.k_BGNK, self.v_BGNU = ops.gather_rows(self.k_BGNK, stays_B), ops.gather_rows(self.v_BGNU, stays_B)
        self.begin_B = self.begin_B[stays_B]

    def arrays(self):
        """The arrays that are held between steps."""
        return (self.k_BGNK, self.v_BGNU) if self.decoding else (self.k_RGK, self.v_RGU)


class DecoderCache:
    """A decoder layer's own cache, and by `cross` that of the source."""

    def __init__(self, target: StepCache, cross: SourceCache):
        self.target, self.cross = target, cross
        self.append, self.attend = target.append, target.attend

    def expand(self, ops, beams: int, steps: int):
        """Ends the prefill for both."""
        self.target.expand(ops, beams, steps)
        self.cross.expand(ops, beams)

    def reorder(self, ops, parent_R):
        """The own cache follows the beams; the source is the same for all beams of a sentence."""
        self.target.reorder(ops, parent_R)

    def keep_only(self, ops, stays_B, stays_R):
        """Keeps only these sentences, and these rows of theirs."""
        self.target.keep_only(ops, stays_B, stays_R)
        self.cross.keep_only(ops, stays_B, stays_R)

    def arrays(self):
        """The arrays that are held between steps."""
        return (*self.target.arrays(), *self.cross.arrays())
