"""Texts that are read a part at a time: a part's rows attend to what a running batch holds of its text, and to itself.

A part may be a whole prompt, what is left of one whose first pages another request has computed, or a chunk: as many
tokens as one step reads. In all three cases a token sees the same keys and values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .padding import offsets_from_lengths
from .prompt import PromptCache


@dataclass(kw_only=True)
class Part:
    """The tokens first to last - 1 of a text."""

    row_X: np.ndarray  # the rows that begin with this text
    ids: np.ndarray  # the whole text
    first: int = 0
    last: int = 0


class PartCache(PromptCache):
    """One decoder layer's keys and values of parts. `running` has what was read before, and gets what is read now."""

    def __init__(self, block: Any, running: Any, parts: list[Part], stored_as: np.dtype | None):
        super().__init__(block, offsets_from_lengths([part.last - part.first for part in parts]), stored_as)
        self.running, self.parts = running, parts

    def attend(self, ops, q_RHK):
        """Attention of each row to its text up to itself."""
        h, k_offsets_X = self.heads, offsets_from_lengths([part.last for part in self.parts])
        arrays = q_RHK, *self._join_with_earlier_parts(), self.offsets_X, k_offsets_X
        a_RX = ops.attend_prefill(*arrays, h.scale, True, h.window, **h.biases)
        self.cast_to_stored()
        for part, k_NGK, v_NGU in self._keys_and_values_by_part():
            self.running.write(part, k_NGK, v_NGU)
        return a_RX

    def _join_with_earlier_parts(self):
        """Keys and values of all parts, each behind those of its text that were read before."""
        pieces = []
        for part, k_NGK, v_NGU in self._keys_and_values_by_part():
            if part.first:
                pieces.append(self.running.keys_and_values_before(part))
            pieces.append((k_NGK, v_NGU))
        return tuple(np.concatenate(each) for each in zip(*pieces, strict=True))

    def _keys_and_values_by_part(self):
        for part, begin, end in zip(self.parts, self.offsets_X, self.offsets_X[1:], strict=False):
            yield part, self.k_RGK[begin:end], self.v_RGU[begin:end]
