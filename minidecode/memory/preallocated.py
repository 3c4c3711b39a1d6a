"""The replicated memory in arrays that are there from the start: a step writes one position, and copies nothing else.

The padded fixed-shape memory of the multi-query paper's footnote 1. Following the beams still copies, prompts too,
but only rows whose parent is another row.
"""

from __future__ import annotations

import numpy as np

from .cross import CrossMemory
from .padding import replicate, with_room


class PreallocatedMemory:
    """One layer's keys and values: the prompt's rows first; after `expand`, a block per beam, with room."""

    keeps, cross = True, CrossMemory

    def __init__(self, block, offsets_X):
        self.bias_X, self.heads, self.offsets_X = block.qkv.bias, block.heads, offsets_X
        self.decoding = False

    def append(self, ops, qkv_RX, h_RD):
        """Adds the bias, cuts into heads, writes keys and values into their places, returns the queries."""
        q_RHK, k_RGK, v_RGU = ops.split_heads(qkv_RX, self.bias_X, self.heads)
        if self.decoding:
            ops.write_step(self.k_RGMK, k_RGK, self.end_R)
            ops.write_step(self.v_RGMU, v_RGU, self.end_R)
            self.end_R = self.end_R + 1
        else:
            self.k_RGK, self.v_RGU = k_RGK, v_RGU
        return q_RHK

    def attend(self, ops, q_RHK):
        """Attention of each row to what its beam holds, itself included."""
        h, offsets_X = self.heads, self.offsets_X
        if not self.decoding:
            return ops.attend_within(q_RHK, self.k_RGK, self.v_RGU, offsets_X, offsets_X, h.scale, True, h.window)
        begin_R = np.maximum(self.begin_R, self.end_R - h.window) if h.window else self.begin_R
        return ops.attend(q_RHK, self.k_RGMK, self.v_RGMU, begin_R, self.end_R, h.scale)

    def expand(self, ops, beams: int, steps: int):
        """Ends the prefill: prompts padded on the left, repeated for each beam, with room for `steps` positions."""
        k_RGNK, v_RGNU, self.begin_R = replicate(ops, self.k_RGK, self.v_RGU, self.offsets_X, beams)
        self.k_RGMK, self.v_RGMU = with_room(k_RGNK, steps), with_room(v_RGNU, steps)
        self.end_R = np.full(len(self.begin_R), k_RGNK.shape[2])
        self.decoding = True
        del self.k_RGK, self.v_RGU

    def reorder(self, ops, parent_R):
        """Row r goes on from what row parent[r] held."""
        ops.follow(self.k_RGMK, parent_R, self.end_R)
        ops.follow(self.v_RGMU, parent_R, self.end_R)

    def arrays(self):
        """What is held between steps."""
        return (self.k_RGMK, self.v_RGMU) if self.decoding else (self.k_RGK, self.v_RGU)
