"""The replicated cache in arrays of full size: a step writes one position and copies nothing else.

The padded fixed-shape cache of the multi-query paper's footnote 1. Following the beams still copies, prompts too,
but only rows whose parent is another row.
"""

from __future__ import annotations

import numpy as np

from ..device.capture import add_one_to_counts, refuse_capture
from .padding import copy_with_free_positions, replicate_prompts
from .prompt import PromptCache
from .protocol import CacheSize
from .running import RunningCache


class PreallocatedCache(PromptCache):
    """One layer's keys and values, after the prefill: a padded block per beam; end[r] positions are written."""

    about = "keys and values for each beam, in arrays that are allocated once"
    ops = frozenset({"append_kv", "attend", "reorder_cache"})
    running_kind = RunningCache

    @staticmethod
    def bytes_between_steps(size: CacheSize) -> int:
        """Each row's text."""
        return size.stored * size.R * (size.N + size.T)

    def begin_steps(self, ops, k_RGK, v_RGU, beams, steps):
        """Prompts padded on the left, repeated for each beam, with space for `steps` positions."""
        k_RGNK, v_RGNU, self.begin_R = replicate_prompts(ops, k_RGK, v_RGU, self.offsets_X, beams, self.N)
        self.k_RGMK, self.v_RGMU = copy_with_free_positions(k_RGNK, steps), copy_with_free_positions(v_RGNU, steps)
        self.end_R = np.full_like(self.begin_R, k_RGNK.shape[2])

    def append_step(self, ops, qkv_RX):
        """Keys and values of the new position, into their positions; returns the queries."""
        q_RHK = ops.append_kv(qkv_RX, self.bias_X, self.heads, self.k_RGMK, self.v_RGMU, self.end_R)
        add_one_to_counts(self.end_R)
        return q_RHK

    def attend_step(self, ops, q_RHK):
        """Attention of each row to what its beam holds, itself included."""
        h = self.heads
        begin_R = self.begin_R
        if h.window:
            refuse_capture("NumPy computes where an attention window begins")
            begin_R = np.maximum(begin_R, self.end_R - h.window)
        return ops.attend(q_RHK, self.k_RGMK, self.v_RGMU, begin_R, self.end_R, h.scale, **h.biases)

    def reorder(self, ops, parent_R):
        """Row r goes on from what row parent[r] held."""
        ops.reorder_cache(self.k_RGMK, parent_R, self.end_R)
        ops.reorder_cache(self.v_RGMU, parent_R, self.end_R)
