"""An engine that reads several new tokens of a text in one forward pass, and can take the last of them back."""

from __future__ import annotations

import numpy as np

from ..cache.drafted import DraftedRows
from .engine import Engine, timed


class DraftCheckingEngine(Engine):
    """An engine that checks drafts. Its DraftedCaches hold the first seen[r] tokens of text r."""

    why_in_parts = "a step checks drafts"

    def prefill(self, prompts: list[np.ndarray], every_row: bool = False) -> np.ndarray:
        self.seen_R = np.array([len(prompt) for prompt in prompts])
        return super().prefill(prompts, every_row)

    def expand(self, beams: int, steps: int) -> None:
        self.seen_R = np.repeat(self.seen_R, beams)
        rows = DraftedRows(self.seen_R, steps)
        for cache in self.caches:
            cache.rows = rows
        self.step_rows = rows
        super().expand(beams, steps)

    @timed("steps")
    def read_new_tokens(self, tokens_RM: np.ndarray, which_X: np.ndarray, length_X: np.ndarray) -> np.ndarray:
        """logits_XV after each token that is new of the texts `which`, text after text: those from seen[r] on.

        length_X: how long these texts are now, the new tokens included.
        """
        self._check_called_off()
        new_X = length_X - self.seen_R[which_X]
        text_X = np.repeat(which_X, new_X)
        at_X = np.concatenate([np.arange(self.seen_R[r], length) for r, length in zip(which_X, length_X, strict=True)])
        self.step_rows.begin_step(text_X, at_X)
        self.rows += len(text_X)
        logits_XV = self._logits_of_tokens(tokens_RM[text_X, at_X], at_X)
        self.seen_R[which_X] = length_X
        self._note_cache_bytes()
        return logits_XV

    def take_back(self, length_R: np.ndarray) -> None:
        """Takes tokens back: at most this many of each text stay read."""
        self.seen_R = np.minimum(self.seen_R, length_R)
