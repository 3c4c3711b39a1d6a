"""Who draws which random numbers: a text's own key, so that its sample does not hang on its neighbours."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np


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
