"""The key/value cache as fairseq and transformers kept it: every beam has a copy of its own, prompt included.

The baseline of FastSeq's section 4.1. Each step copies everything twice: once to add a position (concatenate), once
to follow the beams (reorder).
"""

from __future__ import annotations

import numpy as np

from .cross import CrossMemory
from .padding import replicate


class ReplicatedMemory:
    """One layer's keys and values: the prompt's rows first; after `expand`, a padded block per beam."""

    keeps, cross = True, CrossMemory

    def __init__(self, block, offsets_X):
        self.bias_X, self.heads, self.offsets_X = block.qkv.bias, block.heads, offsets_X
        self.decoding = False

    def append(self, ops, qkv_RX, h_RD):
        """Adds the bias, cuts into heads, keeps keys and values, returns the queries."""
        q_RHK, k_RGK, v_RGU = ops.split_heads(qkv_RX, self.bias_X, self.heads)
        if self.decoding:
            self.k_RGMK = ops.concat_step(self.k_RGMK, k_RGK)
            self.v_RGMU = ops.concat_step(self.v_RGMU, v_RGU)
        else:
            self.k_RGK, self.v_RGU = k_RGK, v_RGU
        return q_RHK

    def attend(self, ops, q_RHK):
        """Attention of each row to what its beam holds, itself included."""
        h, offsets_X = self.heads, self.offsets_X
        if not self.decoding:
            return ops.attend_within(q_RHK, self.k_RGK, self.v_RGU, offsets_X, offsets_X, h.scale, True, h.window)
        end_R = np.full(len(q_RHK), self.k_RGMK.shape[2])
        begin_R = np.maximum(self.begin_R, end_R - h.window) if h.window else self.begin_R
        return ops.attend(q_RHK, self.k_RGMK, self.v_RGMU, begin_R, end_R, h.scale)

    def expand(self, ops, beams: int, steps: int):
        """Ends the prefill: pads the prompts on the left to one length and repeats each for its beams."""
        self.k_RGMK, self.v_RGMU, self.begin_R = replicate(ops, self.k_RGK, self.v_RGU, self.offsets_X, beams)
        self.decoding = True
        del self.k_RGK, self.v_RGU

    def reorder(self, ops, parent_R):
        """Row r goes on from what row parent[r] held: a copy of the whole memory."""
        self.k_RGMK = ops.take(self.k_RGMK, parent_R)
        self.v_RGMU = ops.take(self.v_RGMU, parent_R)

    def arrays(self):
        """What is held between steps."""
        return (self.k_RGMK, self.v_RGMU) if self.decoding else (self.k_RGK, self.v_RGU)
