"""The random key of each sequence, so that a sample does not depend on the rest of the batch."""

from __future__ import annotations

import hashlib
import numbers
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError, counted, shown


@dataclass
class Draws:
    """Who draws next, and for which of its tokens: made beside the logits once, for the ops that draw."""

    keys_R2: np.ndarray
    step_R: np.ndarray

    def next(self) -> None:
        self.step_R += 1

    def of_rows(self, stays_R: np.ndarray) -> Draws:
        """The draws of these texts alone."""
        return Draws(self.keys_R2[stays_R], self.step_R[stays_R])


def check_sample_ids(sample_ids: Sequence[int], sentences: int) -> None:
    """Raises InputError if these are not an integer of 64 bits per sentence."""
    if not isinstance(sample_ids, Iterable):
        raise InputError(f"sample_ids must be integers, one for each prompt, not {shown(sample_ids)}")
    if len(sample_ids) != sentences:
        raise InputError(f"sample_ids are {len(sample_ids)} for {counted(sentences, 'prompt')}: give each its own")
    for number in sample_ids:
        if not isinstance(number, numbers.Integral) or not -(2**63) <= number < 2**63:
            raise InputError(f"sample_ids must be integers of 64 bits, not {number!r}")


def sentence_keys(sources: Sequence[np.ndarray], copies: Sequence[int] | None, texts: int) -> np.ndarray:
    """Two 32-bit numbers (B * texts, 2) for each text: a hash of its source (or prompt), its copy and its number.

    copies tells equal sources apart; by default the first in the list is copy 0, the next one copy 1, and so on.
    texts: how many are drawn from each source.
    """
    seen: Counter[bytes] = Counter()
    keys = []
    for b, source in enumerate(sources):
        content = np.asarray(source, "<i8").tobytes()
        copy = seen[content] if copies is None else copies[b]
        seen[content] += 1
        for text in range(texts):
            place = np.array([copy, text], "<i8").tobytes()
            digest = hashlib.blake2b(content, key=place, digest_size=8).digest()
            keys.append(np.frombuffer(digest, "<u4"))
    return np.array(keys)
