"""What each step of a search chose from, kept for a caller: logits, scores, and the rows that texts went through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

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
    running: list[dict[int, list[list[int]]]] = field(default_factory=list)  # by step and sentence: texts of its beams

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

    def note_beams(self, beams: Any, sentence_B: np.ndarray) -> None:
        """The texts that a step continues, best first."""
        if "beam_indices" in self.what:
            running_BWM, prompt_B, length_B = map(fetch, (beams.running_BWM, beams.prompt_B, beams.length_B))
            ranges = zip(sentence_B, running_BWM, prompt_B, length_B, strict=True)
            self.running.append({int(b): text_WM[:, first:end].tolist() for b, text_WM, first, end in ranges})

    def find_beams(self, tokens: list[list[np.ndarray]]) -> None:
        """beam_indices of each hypothesis that a search has found: where its beginning ran at each step."""
        if "beam_indices" in self.what:
            W = self.rows // len(tokens)
            self.beam_indices = [
                np.array([b * W + self.running[t][b].index(ids[:t].tolist()) for t in range(len(ids))], np.int64)
                for b, sentence in enumerate(tokens)
                for ids in sentence
            ]
