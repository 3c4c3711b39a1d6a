"""What each step of a search chose from, kept for a caller: logits, scores, and the rows that texts went through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..device.arrays import fetch
from ..errors import OptionError
from ..options.options import Options

KINDS = ("scores", "logits", "beam_indices")


@dataclass
class Kept:
    """Arrays by step, with a row for each running text, sentence after sentence. Rows of texts that are done are 0.

    logits: the model's. scores: what the dialect's processors made of them, logits or log-probabilities (see
    processors.py). beam_indices: by hypothesis, the row of `scores` from which each of its tokens was chosen.
    """

    what: tuple[str, ...]
    rows: int
    logits: list[np.ndarray] = field(default_factory=list)
    scores: list[np.ndarray] = field(default_factory=list)
    beam_indices: list[np.ndarray] = field(default_factory=list)
    chosen: list[np.ndarray] = field(default_factory=list)  # by step: (parent, token) of each beam of each sentence

    @classmethod
    def make(cls, what: Sequence[str], sentences: int, options: Options) -> Kept | None:
        """None where nothing is asked for. Raises OptionError on what cannot be kept."""
        what = (what,) if isinstance(what, str) else tuple(what)
        if unknown := [name for name in what if name not in KINDS]:
            raise OptionError(f"keep knows {', '.join(KINDS)}, not {unknown[0]!r}")
        if options.num_beam_groups > 1 and what:
            raise OptionError("keep and num_beam_groups do not go together: each group has scores of its own")
        if options.num_beams == 1 and "beam_indices" in what:
            raise OptionError("keep: one beam has no beam_indices: leave them out")
        each = options.num_beams if options.num_beams > 1 else options.num_return_sequences
        return cls(what, sentences * each) if what else None

    def note(self, kind: str, array_RV: np.ndarray, row_R: np.ndarray, done_R: np.ndarray) -> None:
        """A step's logits or scores, of these rows of the whole batch."""
        if kind in self.what:
            going_R = ~fetch(done_R)
            kept_RV = np.zeros((self.rows, array_RV.shape[1]), array_RV.dtype)
            kept_RV[row_R[going_R]] = fetch(array_RV)[going_R]
            getattr(self, kind).append(kept_RV)

    def note_beams(self, parent_BW: np.ndarray, token_BW: np.ndarray, sentence_B: np.ndarray) -> None:
        """What a step chose: which beam each beam of these sentences goes on from, and by which token."""
        if "beam_indices" in self.what:
            W = parent_BW.shape[1]
            chosen_BW2 = np.zeros((self.rows // W, W, 2), np.int64)
            chosen_BW2[sentence_B] = np.stack([fetch(parent_BW), fetch(token_BW)], axis=-1)
            self.chosen.append(chosen_BW2)

    def find_beams(self, tokens: list[list[np.ndarray]]) -> None:
        """beam_indices of each hypothesis that a search has found: where its beginning ran at each step."""
        if "beam_indices" in self.what:
            texts = [(b, ids) for b, sentence in enumerate(tokens) for ids in sentence]
            self.beam_indices = [self._rows_of(b, ids) for b, ids in texts]

    def _rows_of(self, b: int, ids: np.ndarray) -> np.ndarray:
        """The row of each beginning of a text, from the empty one on; the first where several beams hold the same."""
        W = self.rows // len(self.chosen[0])
        row_T, holds_W = np.empty(len(ids), np.int64), np.ones(W, bool)
        for t, token in enumerate(ids):
            row_T[t] = b * W + np.argmax(holds_W)
            parent_W, token_W = self.chosen[t][b].T
            holds_W = holds_W[parent_W] & (token_W == token)
        return row_T
