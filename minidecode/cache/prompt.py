"""The prefill, the same for every cache that keeps keys and values: a row per prompt token, no padding, no beams.

What the steps do differs, and stands in a file for each cache: how it begins, and what a step appends, attends to
and reorders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ..device.capture import refuse_capture
from ..device.low_precision import cast_for_cache, dtype_for_heads
from .cross import CrossCache
from .padding import longest_sentence_length
from .prefix import Prefix, attend_prompt
from .protocol import CacheSize, CacheTraits, ChosenCache, SourceCacheKind


class PromptCache(CacheTraits):
    """One layer's keys and values of the prompts. What goes on from there adds what a step does:

    about, ops, bytes_between_steps(size), begin_steps(ops, k_RGK, v_RGU, beams, steps), append_step(ops, qkv_RX),
    attend_step(ops, q_RHK) and reorder(ops, parent_R); where it keeps something else than a block for each row, also
    keep_only(ops, stays_B, stays_R) and step_arrays(). What others ask of its class is in `CacheTraits`.
    """

    about: ClassVar[str]
    ops: ClassVar[frozenset[str]]
    beside_source: ClassVar[type[ChosenCache] | None] = None
    cross: ClassVar[SourceCacheKind] = CrossCache
    decoding = False
    prefix: Prefix | None = None  # rows of sources in front of the texts
    bytes_between_steps: Callable[[CacheSize], int]
    begin_steps: Callable[..., None]
    append_step: Callable[..., Any]
    attend_step: Callable[..., Any]
    k_RGMK: Any  # a block for each row, in most caches
    v_RGMU: Any
    begin_R: Any
    end_R: Any  # how many positions of each row are written, in a cache of fixed size

    def __init__(self, block, offsets_X, stored_as=None, N=None):
        self.bias_X, self.heads, self.offsets_X = block.qkv.bias, block.heads, offsets_X
        self.stored_as = stored_as  # a smaller dtype than that of the arithmetic
        self.N = longest_sentence_length(offsets_X) if N is None else N  # positions that prompts are padded to

    @staticmethod
    def prompt_bytes(size: CacheSize) -> int:
        """Each prompt's keys and values."""
        return size.stored * size.B * size.N

    @staticmethod
    def gathered_bytes(size: CacheSize) -> int:
        """0: a row's positions are contiguous."""
        return 0

    def append(self, ops, qkv_RX, h_RD):
        """Adds the bias, cuts into heads, keeps keys and values, returns the queries."""
        if self.decoding:
            return self.append_step(ops, qkv_RX)
        q_RHK, self.k_RGK, self.v_RGU = self.cut_heads(ops, qkv_RX, self.heads)
        return q_RHK

    def cut_heads(self, ops, qkv_RX, heads):
        """Queries, keys and values of rows of prompts, as they are multiplied."""
        return ops.split_heads(qkv_RX, self.bias_X, heads, **dtype_for_heads(qkv_RX, self.stored_as))

    def attend(self, ops, q_RHK):
        """Attention of each row to its sentence up to itself."""
        if self.decoding:
            return self.attend_step(ops, q_RHK)
        a_RX = attend_prompt(ops, q_RHK, self.k_RGK, self.v_RGU, self.offsets_X, self.heads, self.prefix)
        self.cast_to_stored()
        return a_RX

    def attend_next(self, ops, qkv_RX):
        """Attention of a query row for each beam: it stands where the next token will, which then takes its place."""
        refuse_capture("NumPy gives the position of a query row back")
        a_RX = self.attend_step(ops, self.append_step(ops, qkv_RX))
        self.end_R -= 1
        return a_RX

    def cast_to_stored(self):
        """Keys and values as the steps will read them. On the CPU the prompts have attended to them as they were."""
        self.k_RGK, self.v_RGU = cast_for_cache(self.stored_as, self.k_RGK), cast_for_cache(self.stored_as, self.v_RGU)

    def expand(self, ops, beams: int, steps: int):
        """Ends the prefill: from here on there is a row per beam, for at most this many steps."""
        self.cast_to_stored()  # where no prompt has attended, as in a dry run
        self.begin_steps(ops, self.k_RGK, self.v_RGU, beams, steps)
        self.decoding = True
        del self.k_RGK, self.v_RGU, self.offsets_X

    def keep_only(self, ops, stays_B, stays_R):
        """Keeps only these rows."""
        self.k_RGMK, self.v_RGMU = ops.gather_rows(self.k_RGMK, stays_R), ops.gather_rows(self.v_RGMU, stays_R)
        self.begin_R, self.end_R = self.begin_R[stays_R], self.end_R[stays_R]

    def step_arrays(self):
        return self.k_RGMK, self.v_RGMU

    def arrays(self):
        """The arrays that are held between steps."""
        return self.step_arrays() if self.decoding else (self.k_RGK, self.v_RGU)
