"""One generation in flight: prefill, then steps. Nothing is kept on the model."""

from __future__ import annotations

import numpy as np

from .receipt import held_bytes


class Engine:
    """Runs a forward pass over the rows that a prefill or a step needs, and looks after the memories.

    `forward` is the model's, `make_memory(block, offsets_X)` and `ops` the plan's.
    """

    def __init__(self, weights, forward, ops, make_memory):
        self.weights, self.forward, self.ops, self.make_memory = weights, forward, ops, make_memory
        self.memory_peak_bytes = 0

    def prefill(self, prompts: list[np.ndarray], every_row: bool = False) -> np.ndarray:
        """All tokens of all prompts in one pass, without padding -> logits of each prompt's last token, (B, V).

        With every_row, the logits of all tokens, (R, V), sentence after sentence.
        """
        lengths_B = np.array([len(p) for p in prompts])
        offsets_X = np.concatenate([[0], np.cumsum(lengths_B)])
        ids_R = np.concatenate(prompts)
        pos_R = np.arange(len(ids_R)) - np.repeat(offsets_X[:-1], lengths_B)
        pick_R = np.arange(len(ids_R)) if every_row else offsets_X[1:] - 1
        self.memories = [self.make_memory(block, offsets_X) for block in self.weights.blocks]
        logits = self.forward(self.weights, ids_R, pos_R, self.memories, self.ops, pick_R)
        self._note_memory()
        return logits

    def expand(self, beams: int) -> None:
        """One row per beam from here on."""
        if self.memories[0].keeps:
            for memory in self.memories:
                memory.expand(self.ops, beams)
            self._note_memory()

    def step(self, tokens_RM: np.ndarray, length_R: np.ndarray, parent_R: np.ndarray) -> np.ndarray:
        """logits_RV for the token after tokens[r, :length[r]], whose last token is new; row r goes on from parent[r].

        A memory that keeps keys and values computes that last token alone, at position length - 1.
        """
        if not self.memories[0].keeps:
            return self.prefill([tokens_RM[r, :length] for r, length in enumerate(length_R)])
        every_R = np.arange(len(length_R))
        if not np.array_equal(parent_R, every_R):
            for memory in self.memories:
                memory.reorder(self.ops, parent_R)
        ids_R = tokens_RM[every_R, length_R - 1]
        logits_RV = self.forward(self.weights, ids_R, length_R - 1, self.memories, self.ops, every_R)
        self._note_memory()
        return logits_RV

    def _note_memory(self) -> None:
        held = held_bytes(a for memory in self.memories for a in memory.arrays())
        self.memory_peak_bytes = max(self.memory_peak_bytes, held)
