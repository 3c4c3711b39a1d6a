"""FastSeq's memory (section 4.1.1): a sentence's prompt is kept once, and what each beam has generated beside it.

All beams of a sentence go on from the same prompt, so its keys and values need no copy per beam; and since it is the
same for all of them, following the beams moves the generated part alone.
"""

from __future__ import annotations

import numpy as np

from .cross import SharedCrossMemory
from .padding import padding


class SplitMemory:
    """One layer's keys and values: the prompt's rows; after `expand`, also a block per beam for what it generates."""

    keeps, cross = True, SharedCrossMemory

    def __init__(self, block, offsets_X):
        self.bias_X, self.heads, self.offsets_X = block.qkv.bias, block.heads, offsets_X
        self.decoding = False

    def append(self, ops, qkv_RX, h_RD):
        """Adds the bias, cuts into heads, writes keys and values into their places, returns the queries."""
        q_RHK, k_RGK, v_RGU = ops.split_heads(qkv_RX, self.bias_X, self.heads)
        if self.decoding:
            ops.write_step(self.k_RGTK, k_RGK, self.end_R)
            ops.write_step(self.v_RGTU, v_RGU, self.end_R)
            self.end_R = self.end_R + 1
        else:
            self.k_RGK, self.v_RGU, self.dtype = k_RGK, v_RGU, k_RGK.dtype
        return q_RHK

    def attend(self, ops, q_RHK):
        """Attention of each row to its sentence's prompt and to what its beam has generated, itself included."""
        if not self.decoding:
            return self.attend_prompt(ops, q_RHK)
        prompt_begin_B, begin_R, window = self.prompt_begin_B, np.zeros_like(self.end_R), self.heads.window
        if window:  # it reaches back over the generated part, and perhaps into the prompt
            N = int(np.diff(self.offsets_X).max())
            begin_R = np.maximum(begin_R, self.end_R - window)
            reach_B = np.full(len(prompt_begin_B), N + self.end_R[0] - window)  # all rows are as long
            prompt_begin_B = np.clip(reach_B, prompt_begin_B, N)
        return self.attend_both(ops, q_RHK, prompt_begin_B, begin_R)

    def attend_prompt(self, ops, q_RHK):
        """The prefill: each row inside its prompt."""
        h, offsets_X = self.heads, self.offsets_X
        return ops.attend_within(q_RHK, self.k_RGK, self.v_RGU, offsets_X, offsets_X, h.scale, True, h.window)

    def attend_both(self, ops, q_RHK, prompt_begin_B, begin_R):
        """A step: the two parts that begin there."""
        return ops.attend_split(
            q_RHK, self.prompt_k_BGNK, self.prompt_v_BGNU, prompt_begin_B, self.k_RGTK, self.v_RGTU,
            begin_R, self.end_R, self.heads.scale,
        )  # fmt: skip

    def expand(self, ops, beams: int, steps: int):
        """Ends the prefill: prompts padded on the left, once each; room for `steps` positions of each beam."""
        self.keep_prompt(ops)
        self.prompt_begin_B = padding(self.offsets_X)
        R, h = len(self.prompt_begin_B) * beams, self.heads
        self.k_RGTK = np.zeros((R, h.G, steps, h.K), self.dtype)
        self.v_RGTU = np.zeros((R, h.G, steps, h.U), self.dtype)
        self.end_R = np.zeros(R, np.int64)
        self.decoding = True

    def keep_prompt(self, ops):
        """The prompt's keys and values, padded on the left."""
        self.prompt_k_BGNK = ops.pad_left(self.k_RGK, self.offsets_X)
        self.prompt_v_BGNU = ops.pad_left(self.v_RGU, self.offsets_X)
        del self.k_RGK, self.v_RGU

    def reorder(self, ops, parent_R):
        """Row r goes on from what row parent[r], a beam of the same sentence, has generated."""
        ops.follow(self.k_RGTK, parent_R, self.end_R)
        ops.follow(self.v_RGTU, parent_R, self.end_R)

    def arrays(self):
        """What is held between steps."""
        if not self.decoding:
            return self.k_RGK, self.v_RGU
        return self.prompt_k_BGNK, self.prompt_v_BGNU, self.k_RGTK, self.v_RGTU
