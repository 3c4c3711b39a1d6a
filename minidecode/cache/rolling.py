"""The cache of local attention (multi-query paper, section 4.1): as many positions as a row sees, and no more.

Position p of a sentence lies in slot p % M, so that a step overwrites what has just left the window: however long the
text, the cache stays as it is. Every beam has slots of its own, for the decoder's self-attention alone; the source of
an encoder-decoder model is kept once for all beams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ..device.capture import add_one_to_counts, refuse_capture
from ..errors import OptionError
from .cross import SharedCrossCache
from .padding import padding_lengths
from .prompt import PromptCache
from .protocol import CacheSize, SourceCacheKind


class RollingCache(PromptCache):
    """One layer's keys and values, after the prefill: M slots per beam; end[r] positions have been written."""

    about = "the last positions alone: for a model with an attention_window"
    slots_wrap = True
    ops = frozenset({"append_kv", "attend_rolling", "reorder_cache"})
    refuses: ClassVar[Mapping[str, str]] = {
        "reads_in_front": "this model reads a source both ways, which no window allows: use cache=split",
    }
    cross: ClassVar[SourceCacheKind] = SharedCrossCache

    @staticmethod
    def bytes_between_steps(size: CacheSize) -> int:
        """The positions that each row sees."""
        return size.stored * size.R * min(size.window or size.N + size.T, size.N + size.T)

    def __init__(self, block, offsets_X, stored_as=None, N=None):
        if block.heads.window is None:
            raise OptionError("plan: cache=rolling needs a model with an attention_window in its config.json")
        super().__init__(block, offsets_X, stored_as, N)

    def begin_steps(self, ops, k_RGK, v_RGU, beams, steps):
        """Prompts padded on the left; their last M positions go into slots, which are repeated for each beam."""
        k_BGNK, v_BGNU = (ops.pad_left(rows, self.offsets_X, self.N) for rows in (k_RGK, v_RGU))
        B, N = len(k_BGNK), k_BGNK.shape[2]
        M, sentence_R = min(self.heads.window, N + steps), np.repeat(np.arange(B, like=k_BGNK), beams)
        self.k_RGMK = ops.gather_rows(slots_of_prompt(k_BGNK, M), sentence_R)
        self.v_RGMU = ops.gather_rows(slots_of_prompt(v_BGNU, M), sentence_R)
        self.begin_R = padding_lengths(self.offsets_X, self.N)[sentence_R]
        self.end_R = np.full_like(sentence_R, N)

    def append_step(self, ops, qkv_RX):
        """Keys and values of the new position, over those of the oldest; returns the queries."""
        refuse_capture("NumPy computes the slots of a rolling cache")
        slot_R = self.end_R % self.k_RGMK.shape[2]
        q_RHK = ops.append_kv(qkv_RX, self.bias_X, self.heads, self.k_RGMK, self.v_RGMU, slot_R)
        add_one_to_counts(self.end_R)
        return q_RHK

    def attend_step(self, ops, q_RHK):
        """Attention of each row to the slots of its beam, itself included."""
        h = self.heads
        return ops.attend_rolling(q_RHK, self.k_RGMK, self.v_RGMU, self.begin_R, self.end_R, h.scale, **h.biases)

    def reorder(self, ops, parent_R):
        """Row r goes on from what row parent[r] held, in the slots that are written."""
        written_R = np.minimum(self.end_R, self.k_RGMK.shape[2])
        ops.reorder_cache(self.k_RGMK, parent_R, written_R)
        ops.reorder_cache(self.v_RGMU, parent_R, written_R)


def slots_of_prompt(k_BGNX, M: int):
    """The last M of N positions, each in its slot; slots beyond the N-th, if there are any, are zeros."""
    B, G, N, X = k_BGNX.shape
    position_M = np.arange(max(0, N - M), N, like=k_BGNX)
    k_BGMX = np.zeros((B, G, M, X), k_BGNX.dtype, like=k_BGNX)
    k_BGMX[:, :, position_M % M] = k_BGNX[:, :, position_M]
    return k_BGMX
