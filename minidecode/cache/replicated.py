"""The key/value cache of fairseq and transformers: every beam has its own copy, prompt included.

The baseline of FastSeq's section 4.1. Each step copies everything twice: once to add a position (concatenate), once
to follow the beams (reorder).
"""

from __future__ import annotations

import numpy as np

from .padding import replicate_prompts
from .prompt import PromptCache
from .protocol import CacheSize


class ReplicatedCache(PromptCache):
    """One layer's keys and values, after the prefill: a padded block per beam, which grows."""

    about = "keys and values for each beam; the arrays grow at each step"
    in_place = False
    grows = True
    ops = frozenset({"attend"})

    @staticmethod
    def bytes_between_steps(size: CacheSize) -> int:
        """Each row's text without its last token, which no step reads."""
        return size.stored * size.R * (size.N + size.T - 1)

    def begin_steps(self, ops, k_RGK, v_RGU, beams, steps):
        """Prompts padded on the left to one length, and repeated for each beam."""
        self.k_RGMK, self.v_RGMU, self.begin_R = replicate_prompts(ops, k_RGK, v_RGU, self.offsets_X, beams, self.N)

    def append_step(self, ops, qkv_RX):
        """Appends a position by copying the whole cache to new arrays; returns the queries."""
        q_RHK, k_RGK, v_RGU = ops.split_heads(qkv_RX, self.bias_X, self.heads)
        self.k_RGMK = ops.concat_step(self.k_RGMK, k_RGK)
        self.v_RGMU = ops.concat_step(self.v_RGMU, v_RGU)
        return q_RHK

    def attend_step(self, ops, q_RHK):
        """Attention of each row to what its beam holds, itself included."""
        h, end_R = self.heads, np.full_like(self.begin_R, self.k_RGMK.shape[2])
        begin_R = np.maximum(self.begin_R, end_R - h.window) if h.window else self.begin_R
        return ops.attend(q_RHK, self.k_RGMK, self.v_RGMU, begin_R, end_R, h.scale, **h.biases)

    def attend_next(self, ops, qkv_RX):
        """Attends to the query row's position as well, then drops the copy that holds it."""
        kept = self.k_RGMK, self.v_RGMU
        a_RX = self.attend_step(ops, self.append_step(ops, qkv_RX))
        self.k_RGMK, self.v_RGMU = kept
        return a_RX

    def reorder(self, ops, parent_R):
        """Row r goes on from what row parent[r] held: a copy of the whole cache."""
        self.k_RGMK = ops.gather_rows(self.k_RGMK, parent_R)
        self.v_RGMU = ops.gather_rows(self.v_RGMU, parent_R)

    def keep_only(self, ops, stays_B, stays_R):
        """Keeps only these rows."""
        self.k_RGMK, self.v_RGMU = ops.gather_rows(self.k_RGMK, stays_R), ops.gather_rows(self.v_RGMU, stays_R)
        self.begin_R = self.begin_R[stays_R]
