"""A latent in front of texts: one more position in each layer's cache, which no token has, kept as the prompt is.

A sentence's latent gives each layer a vector m, and the key and the value of the first position are both m. A cache
finds it as the first row of the prompt and keeps it as it keeps prompts: the split cache once for all beams of a
sentence. So it need not follow the beams, and it leaves the batch with its sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..device.arrays import fetch
from .protocol import StepCache


class Latent:
    """What the latents of a batch give to all layers; see models/gpt2_latent.py."""

    def __init__(self, memory_BX, addend_BD):
        self.memory_BX = memory_BX  # m of each layer, side by side
        self.addend_BD = addend_BD  # what is added to each embedding of the sentence

    def pick_sentences(self, ops, pick_B) -> Latent:
        """The latents of these sentences, in this order, each as often as it is named."""
        return Latent(ops.gather_rows(self.memory_BX, pick_B), ops.gather_rows(self.addend_BD, pick_B))

    def wrap_caches(self, blocks: Sequence[Any], caches: Sequence[Any], offsets_X) -> list[StepCache]:
        """Layers' caches, made for `offsets_with_latent(offsets_X)`, for texts of these offsets."""
        lengths_B = np.diff(fetch(offsets_X))
        sentence_R = np.repeat(np.arange(len(lengths_B)), lengths_B)
        sentence_R = np.asarray(sentence_R, like=offsets_X)
        rows = (
            sentence_R,
            offsets_with_latent(offsets_X)[:-1],
            np.arange(len(sentence_R), like=offsets_X) + sentence_R + 1,
        )
        layers = zip(blocks, caches, range(len(caches)), strict=True)
        return [LatentCache(cache, self.qkv_row(block, layer), self.addend_BD, *rows) for block, cache, layer in layers]

    def qkv_row(self, block, layer: int):
        """A layer's row of queries, keys and values: q = 0, k = m, v = m, less the bias that caches add to all rows."""
        h = block.heads
        keys, width = h.H * h.K, h.G * h.K
        m_BX = self.memory_BX[:, layer * width : (layer + 1) * width]
        row_BX = np.zeros((len(m_BX), keys + 2 * width), m_BX.dtype, like=m_BX)
        row_BX[:, keys : keys + width] = m_BX
        row_BX[:, keys + width :] = m_BX
        row_BX -= block.qkv.bias
        return row_BX


def offsets_with_latent(offsets_X):
    """The offsets of sequences when each has one row more in front."""
    return offsets_X + np.arange(len(offsets_X), like=offsets_X)


class LatentCache:
    """A decoder layer's cache, with the latent's position in front of each text."""

    decoding = False

    def __init__(self, cache: StepCache, row_BX, addend_BD, sentence_R, first_B, token_R):
        self.cache, self.row_BX, self.addend_BD = cache, row_BX, addend_BD
        self.sentence_R = sentence_R  # which sentence a row belongs to
        self.first_B, self.token_R = first_B, token_R  # where the latents' rows and those of tokens go in the prefill

    def addend(self, ops):
        """The vector that is added to the embedding of each row's token."""
        return ops.gather_rows(self.addend_BD, self.sentence_R)

    def append(self, ops, qkv_RX, h_RD):
        """Appends to the own cache; in a prefill the latents' rows with those of tokens."""
        if not self.decoding:
            tokens_RX, rows = qkv_RX, len(self.first_B) + len(self.token_R)
            qkv_RX = np.empty((rows, tokens_RX.shape[1]), tokens_RX.dtype, like=tokens_RX)
            qkv_RX[self.token_R] = tokens_RX
            qkv_RX[self.first_B] = self.row_BX
        return self.cache.append(ops, qkv_RX, h_RD)

    def attend(self, ops, q_RHK):
        """Attends by the own cache, for rows of tokens alone: nothing asks what the latent's row would see."""
        a_RX = self.cache.attend(ops, q_RHK)
        return a_RX if self.decoding else ops.gather_rows(a_RX, self.token_R)

    def expand(self, ops, beams: int, steps: int):
        """Ends the prefill."""
        self.cache.expand(ops, beams, steps)
        self.sentence_R = np.repeat(np.arange(len(self.first_B), like=self.first_B), beams)
        self.decoding = True
        del self.row_BX, self.first_B, self.token_R

    def reorder(self, ops, parent_R):
        """The latent is the same for all beams of a sentence."""
        self.cache.reorder(ops, parent_R)

    def keep_only(self, ops, stays_B, stays_R):
        """Keeps only these sentences, and these rows of theirs."""
        self.cache.keep_only(ops, stays_B, stays_R)
        self.sentence_R = self.sentence_R[stays_R]

    def arrays(self):
        """The arrays that are held between steps."""
        return (*self.cache.arrays(), self.addend_BD)
