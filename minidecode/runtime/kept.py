"""What each step of a search chose from, kept for a caller: logits, scores, and the rows that texts went through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..device.arrays import fetch
from ..errors import OptionError
from ..options.options import Options

KINDS = ("scores", "logits", "beam_indices", "token_scores")


def kinds_to_keep(keep: Sequence[str], options: Options) -> tuple[str, ...]:
    """The names in `keep`, which is one or several. Raises OptionError on what cannot be kept."""
    kinds = (keep,) if isinstance(keep, str) or not isinstance(keep, Iterable) else tuple(keep)
    if unknown := [name for name in kinds if name not in KINDS]:
        raise OptionError(f"keep knows {', '.join(KINDS)}, not {unknown[0]!r}")
    if options.num_beam_groups > 1 and kinds:
        raise OptionError("keep and num_beam_groups do not go together: each group has scores of its own")
    if options.num_beams == 1 and "beam_indices" in kinds:
        raise OptionError("keep: one beam has no beam_indices: leave them out")
    return kinds


@dataclass
class Kept:
    """Arrays by step, with a row for each running text, sentence after sentence. Rows of texts that are done are 0.

    logits: the model's. scores: what the dialect's processors made of them, logits or log-probabilities (see
    processors.py). beam_indices: by hypothesis, the row of `scores` from which each of its tokens was chosen.
    token_scores: by hypothesis, what each of its tokens adds to the sum of its log-probabilities.
    """

    what: tuple[str, ...]
    rows: int
    logits: list[np.ndarray] = field(default_factory=list)
    scores: list[np.ndarray] = field(default_factory=list)
    beam_indices: list[np.ndarray] = field(default_factory=list)
    token_scores: list[np.ndarray] = field(default_factory=list)
    chosen: list[np.ndarray] = field(default_factory=list)  # by step: (parent, token) of each beam of each sentence
    gains: list[dict[str, np.ndarray]] = field(default_factory=list)  # by step: of each text, or of each candidate

    @classmethod
    def make(cls, what: Sequence[str], sentences: int, options: Options) -> Kept | None:
        """The record of every step; None if nothing is to be kept. Raises OptionError on what cannot be kept."""
        what = kinds_to_keep(what, options)
        each = options.num_beams if options.num_beams > 1 else options.num_return_sequences
        return cls(what, sentences * each) if what else None

    def note_rows(self, kind: str, array_RV: np.ndarray, row_R: np.ndarray, done_R: np.ndarray) -> None:
        """A step's logits or scores, of these rows of the whole batch."""
        if kind in self.what:
            going_R = ~fetch(done_R)
            kept_RV = np.zeros((self.rows, array_RV.shape[1]), array_RV.dtype)
            kept_RV[row_R[going_R]] = fetch(array_RV)[going_R]
            getattr(self, kind).append(kept_RV)

    def note_gains(self, gained_R: np.ndarray, row_R: np.ndarray) -> None:
        """What a step's tokens add to the sums of these rows of the whole batch."""
        if "token_scores" in self.what:
            kept_R = np.zeros(self.rows)
            kept_R[row_R] = fetch(gained_R)
            self.gains.append({"gained": kept_R})

    def note_candidates(
        self, total_BC: np.ndarray, parent_BC: np.ndarray, token_BC: np.ndarray, running_BW: np.ndarray,
        sentence_B: np.ndarray,
    ) -> None:  # fmt: skip
        """What each candidate of these sentences adds to the sum of the beam that it goes on from."""
        if "token_scores" in self.what:
            total_BC, parent_BC, token_BC, running_BW = map(fetch, (total_BC, parent_BC, token_BC, running_BW))
            with np.errstate(invalid="ignore"):  # a beam out of play may have minus infinity
                gained_BC = total_BC - np.take_along_axis(running_BW, parent_BC, axis=1)
            of_step = {"gained": gained_BC, "parent": parent_BC, "token": token_BC}
            W, gains = running_BW.shape[1], {}
            for name, array_BC in of_step.items():
                gains[name] = np.zeros((self.rows // W, array_BC.shape[1]), array_BC.dtype)
                gains[name][sentence_B] = array_BC
            self.gains.append(gains)

    def note_beams(self, parent_BW: np.ndarray, token_BW: np.ndarray, sentence_B: np.ndarray) -> None:
        """What a step chose: which beam each beam of these sentences goes on from, and by which token."""
        if {"beam_indices", "token_scores"} & set(self.what):
            W = parent_BW.shape[1]
            chosen_BW2 = np.zeros((self.rows // W, W, 2), np.int64)
            chosen_BW2[sentence_B] = np.stack([fetch(parent_BW), fetch(token_BW)], axis=-1)
            self.chosen.append(chosen_BW2)

    def find_beams(self, tokens: list[list[np.ndarray]]) -> None:
        """Fills in what is kept for each text of a beam search: the row where its beginning ran at each step."""
        texts = [(b, ids) for b, sentence in enumerate(tokens) for ids in sentence]
        if "beam_indices" in self.what:
            self.beam_indices = [self._rows_of_prefixes(b, ids) for b, ids in texts]
        if "token_scores" in self.what:
            self.token_scores = [self._gains_of_text(b, ids) for b, ids in texts]

    def find_texts(self, tokens: list[list[np.ndarray]]) -> None:
        """Fills in what is kept for each text of a search without beams."""
        if "token_scores" in self.what:
            texts = [ids for sentence in tokens for ids in sentence]
            self.token_scores = [
                np.array([self.gains[t]["gained"][row] for t in range(len(ids))]) for row, ids in enumerate(texts)
            ]

    def _gains_of_text(self, b: int, ids: np.ndarray) -> np.ndarray:
        """What each token of a text added: that candidate's gain, which went on from the text's beam by this token."""
        W = self.rows // len(self.chosen[0])
        gained_T = np.empty(len(ids))
        for t, (token, row) in enumerate(zip(ids, self._rows_of_prefixes(b, ids), strict=True)):
            step = self.gains[t]
            c = np.argmax((step["parent"][b] == row - b * W) & (step["token"][b] == token))
            gained_T[t] = step["gained"][b, c]
        return gained_T

    def _rows_of_prefixes(self, b: int, ids: np.ndarray) -> np.ndarray:
        """The row of each beginning of a text, from the empty one on; the first where several beams hold the same."""
        W = self.rows // len(self.chosen[0])
        row_T, holds_W = np.empty(len(ids), np.int64), np.ones(W, bool)
        for t, token in enumerate(ids):
            row_T[t] = b * W + np.argmax(holds_W)
            parent_W, token_W = self.chosen[t][b].T
            holds_W = holds_W[parent_W] & (token_W == token)
        return row_T
