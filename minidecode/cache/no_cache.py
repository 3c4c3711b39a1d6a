"""No cache: keys and values are computed again for every token at every step (the first row of FastSeq's Table 2).

An encoder, which runs once over whole sources, uses the same cache without the causal mask.
"""

from __future__ import annotations

from typing import ClassVar

from ..device.low_precision import dtype_for_heads
from .cross import CrossCache
from .prefix import Prefix, attend_prompt
from .protocol import CacheSize, CacheTraits, ChosenCache, SourceCacheKind


class NoCache(CacheTraits):
    """Serves one forward pass over whole sequences, then is thrown away: nothing is remembered or stored."""

    about: ClassVar[str] = "nothing: each step computes all positions again"
    keeps = False
    ops: ClassVar[frozenset[str]] = frozenset()
    in_place = False
    beside_source: ClassVar[type[ChosenCache] | None] = None
    cross: ClassVar[SourceCacheKind] = CrossCache
    prefix: Prefix | None = None  # rows of sources in front of the texts

    def __init__(self, block, offsets_X, stored_as=None, N=None, causal=True):
        self.bias_X, self.heads, self.offsets_X, self.causal = block.qkv.bias, block.heads, offsets_X, causal
        self.weights_are = block.qkv.data.dtype

    @staticmethod
    def prompt_bytes(size: CacheSize) -> int:
        """0: no keys or values are stored."""
        return 0

    @staticmethod
    def bytes_between_steps(size: CacheSize) -> int:
        """0: no keys or values are stored."""
        return 0

    @staticmethod
    def gathered_bytes(size: CacheSize) -> int:
        """0: attention reads keys and values as they were computed."""
        return 0

    def append(self, ops, qkv_RX, h_RD):
        """Adds the bias, cuts into heads, lays keys and values ready, returns the queries."""
        q_RHK, self.k_RGK, self.v_RGU = self.cut_heads(ops, qkv_RX, self.heads)
        return q_RHK

    def cut_heads(self, ops, qkv_RX, heads):
        """Queries, keys and values of rows, as they are multiplied."""
        return ops.split_heads(qkv_RX, self.bias_X, heads, **dtype_for_heads(qkv_RX, self.weights_are))

    def attend(self, ops, q_RHK):
        """Attention of each row inside its sequence; keys and values are dropped."""
        h, offsets_X = self.heads, self.offsets_X
        k_RGK, v_RGU = self.k_RGK, self.v_RGU
        del self.k_RGK, self.v_RGU
        if self.causal:
            return attend_prompt(ops, q_RHK, k_RGK, v_RGU, offsets_X, h, self.prefix)
        return ops.attend_prefill(q_RHK, k_RGK, v_RGU, offsets_X, offsets_X, h.scale, False, h.window, **h.biases)

    def arrays(self):
        """No arrays are held between steps."""
        return ()
