"""FastSeq's split cache (section 4.1.1): a sentence's prompt is stored once, generated positions once per beam.

All beams of a sentence go on from the same prompt, so its keys and values need no copy per beam; and since it is the
same for all of them, following the beams moves the generated part alone.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..device.capture import add_one_to_counts, refuse_capture
from .cross import SharedCrossCache
from .padding import padding_lengths
from .prompt import PromptCache
from .protocol import CacheSize, SourceCacheKind


class SplitCache(PromptCache):
    """One layer's keys and values, after the prefill: a block per sentence, and one per beam for what it generates."""

    about = "the prompt once per sentence, what is generated per beam"
    ops = frozenset({"append_kv", "attend_split", "reorder_cache"})
    cross: ClassVar[SourceCacheKind] = SharedCrossCache

    @staticmethod
    def bytes_between_steps(size: CacheSize) -> int:
        """Each sentence's prompt, and what each row generates."""
        return size.stored * (size.B * size.N + size.R * size.T)

    def begin_steps(self, ops, k_RGK, v_RGU, beams, steps):
        """Prompts once each; space for `steps` positions of each beam."""
        self.keep_prompt(ops, k_RGK, v_RGU)
        self.prompt_begin_B = padding_lengths(self.offsets_X, self.N)
        R, h = len(self.prompt_begin_B) * beams, self.heads
        self.k_RGTK = np.zeros((R, h.G, steps, h.K), k_RGK.dtype, like=k_RGK)
        self.v_RGTU = np.zeros((R, h.G, steps, h.U), v_RGU.dtype, like=v_RGU)
        # Without a window, a row sees its own part from the beginning at every step: zeros, made once.
        self.begin_R, self.end_R = (np.zeros(R, np.int64, like=self.prompt_begin_B) for _ in range(2))

    def keep_prompt(self, ops, k_RGK, v_RGU):
        """Prompts padded on the left."""
        self.prompt_k_BGNK = ops.pad_left(k_RGK, self.offsets_X, self.N)
        self.prompt_v_BGNU = ops.pad_left(v_RGU, self.offsets_X, self.N)

    def append_step(self, ops, qkv_RX):
        """Keys and values of the new position, into their positions; returns the queries."""
        q_RHK = ops.append_kv(qkv_RX, self.bias_X, self.heads, self.k_RGTK, self.v_RGTU, self.end_R)
        add_one_to_counts(self.end_R)
        return q_RHK

    def attend_step(self, ops, q_RHK):
        """Attention of each row to its sentence's prompt and to what its beam has generated, itself included."""
        prompt_begin_B, begin_R = self.first_seen()
        return ops.attend_split(
            q_RHK, self.prompt_k_BGNK, self.prompt_v_BGNU, prompt_begin_B, self.k_RGTK, self.v_RGTU,
            begin_R, self.end_R, self.heads.scale, **self.heads.biases,
        )  # fmt: skip

    def first_seen(self):
        """(prompt_begin_B, begin_R): where in the prompt, and where in its own part, a row's sight begins."""
        prompt_begin_B, begin_R, window = self.prompt_begin_B, self.begin_R, self.heads.window
        if window:  # it reaches back over the generated part, and perhaps into the prompt
            refuse_capture("NumPy computes where an attention window begins")
            begin_R = np.maximum(begin_R, self.end_R - window)
            reach_1 = self.end_R[:1] + (self.N - window)  # all rows are as long
            prompt_begin_B = np.minimum(np.maximum(reach_1, prompt_begin_B), self.N)
        return prompt_begin_B, begin_R

    def reorder(self, ops, parent_R):
        """Row r goes on from what row parent[r], a beam of the same sentence, has generated."""
        ops.reorder_cache(self.k_RGTK, parent_R, self.end_R)
        ops.reorder_cache(self.v_RGTU, parent_R, self.end_R)

    def keep_only(self, ops, stays_B, stays_R):
        """The prompts of these sentences and what these rows have generated are kept alone."""
        self.keep_only_prompts(ops, stays_B)
        self.prompt_begin_B = self.prompt_begin_B[stays_B]
        self.k_RGTK, self.v_RGTU = ops.gather_rows(self.k_RGTK, stays_R), ops.gather_rows(self.v_RGTU, stays_R)
        self.begin_R, self.end_R = self.begin_R[stays_R], self.end_R[stays_R]

    def keep_only_prompts(self, ops, stays_B):
        """Keeps the prompts that stay, as wide as before: `first_seen` counts from where all prompts end."""
        self.prompt_k_BGNK = ops.gather_rows(self.prompt_k_BGNK, stays_B)
        self.prompt_v_BGNU = ops.gather_rows(self.prompt_v_BGNU, stays_B)

    def step_arrays(self):
        return self.prompt_k_BGNK, self.prompt_v_BGNU, self.k_RGTK, self.v_RGTU
