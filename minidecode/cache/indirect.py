"""FasterTransformer's cache: like the split cache, but generated keys and values never move; a table follows the beams.

Following the beams copies no keys and values at all: a table says in which row each position of a row lies, and the
table follows the beams. Every layer has one of its own, and all are equal.
"""

from __future__ import annotations

import numpy as np

from .protocol import CacheSize
from .split import SplitCache


class IndirectCache(SplitCache):
    """A split cache and the table: row r's own position t lies in row source[r, t], of the same sentence."""

    about = "the same as split; beams change places in a table, not in the cache"
    ops = frozenset({"append_kv", "attend_indirect", "update_indirection"})

    @staticmethod
    def bytes_between_steps(size: CacheSize) -> int:
        """The split cache, and the table."""
        return SplitCache.bytes_between_steps(size) + 8 * size.R * size.T

    @staticmethod
    def gathered_bytes(size: CacheSize) -> int:
        """What rows have generated, in order; and for each head, the places where the table says that it lies."""
        return size.R * size.T * (size.computed + 8 * size.G)

    def begin_steps(self, ops, k_RGK, v_RGU, beams, steps):
        """Begins the split cache, and a table that names each row's own row: there it writes what it generates."""
        super().begin_steps(ops, k_RGK, v_RGU, beams, steps)
        own_row_R1 = np.arange(len(self.end_R), like=self.end_R)[:, None]
        self.indirection_RT = np.tile(own_row_R1, steps)

    def attend_step(self, ops, q_RHK):
        """Attention of each row to its sentence's prompt and, by the table, to what its beam has generated."""
        prompt_begin_B, begin_R = self.first_seen()
        return ops.attend_indirect(
            q_RHK, self.prompt_k_BGNK, self.prompt_v_BGNU, prompt_begin_B, self.k_RGTK, self.v_RGTU,
            self.indirection_RT, begin_R, self.end_R, self.heads.scale, **self.heads.biases,
        )  # fmt: skip

    def reorder(self, ops, parent_R):
        """Row r goes on from what row parent[r] has generated, wherever that lies."""
        ops.update_indirection(self.indirection_RT, parent_R, self.end_R)

    def keep_only(self, ops, stays_B, stays_R):
        """All rows of a sentence stay, or none, so what the table points to stays too, and has another number now."""
        super().keep_only(ops, stays_B, stays_R)
        number_R = np.empty_like(self.end_R, shape=len(self.indirection_RT))
        number_R[stays_R] = np.arange(len(stays_R), like=self.end_R)
        self.indirection_RT = number_R[self.indirection_RT[stays_R]]

    def step_arrays(self):
        return *super().step_arrays(), self.indirection_RT
