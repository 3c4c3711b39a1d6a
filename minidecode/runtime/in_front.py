"""Sources that a model reads in front of its texts, in the same layers and with one count of positions (UniLM)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cache.padding import offsets_from_lengths
from ..cache.prefix import Prefix
from ..cache.queries import rows_per_token
from ..device.arrays import put


@dataclass(frozen=True)
class InFront:
    """The source of each text. The model's table of places has those of sources first, and then those of targets.

    A model that predicts by query rows has no row for the first token of a target, which stands for nothing: the query
    row behind the last token of the source predicts the second one.
    """

    sources: list[np.ndarray]
    target_place: int  # where the places of targets begin in the table
    unread: int  # tokens at the beginning of a target that have no row
    device: str

    @classmethod
    def from_sources(cls, sources: list[np.ndarray], weights: Any, device: str) -> InFront:
        return cls(sources, weights.target_place, rows_per_token(weights) - 1, device)

    def pick_sentences(self, pick_X: np.ndarray) -> InFront:
        """The sources of these texts, in this order: of each beam, or of those that go on."""
        return InFront([self.sources[x] for x in pick_X], self.target_place, self.unread, self.device)

    def texts_behind_sources(self, texts: list[np.ndarray]) -> list[np.ndarray]:
        """Each text behind its source, without what is not read."""
        return [np.concatenate([s, text[self.unread :]]) for s, text in zip(self.sources, texts, strict=True)]

    def place_shift_R(self) -> np.ndarray:
        """What comes on top of a token's number in its text to give its place in the table, for each text."""
        return self._copy_to_device(np.array([len(s) - self.unread + self.target_place for s in self.sources]))

    def first_B(self, lengths: list[int], every_row: bool) -> list[int]:
        """The first token that predicts, of each text behind its source: the last one, or with every_row the first one
        whose next token is one of the text."""
        if not every_row:
            return [length - 1 for length in lengths]
        return [len(source) - self.unread for source in self.sources]

    def layout(self, lengths: list[int], first_B: list[int]) -> tuple[np.ndarray, Prefix, np.ndarray]:
        """(place_R, which rows are of sources, which tokens predict): of all tokens of the sources with their texts."""
        size_B, length_B = np.array([len(source) for source in self.sources]), np.array(lengths)
        begin_B = np.cumsum(length_B) - length_B
        pos_R = np.arange(length_B.sum()) - np.repeat(begin_B, length_B)
        of_source_R = pos_R < np.repeat(size_B, length_B)
        predicts_R = pos_R >= np.repeat(first_B, length_B)
        pick_R = None if of_source_R.all() else self._copy_to_device(np.flatnonzero(of_source_R))
        prefix = Prefix(self._copy_to_device(offsets_from_lengths(size_B)), pick_R)
        place_R = pos_R + self.target_place * ~of_source_R
        return self._copy_to_device(place_R), prefix, self._copy_to_device(np.flatnonzero(predicts_R))

    def _copy_to_device(self, array: np.ndarray) -> np.ndarray:
        return put(array, self.device)
