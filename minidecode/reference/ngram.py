"""The no-repeat-n-gram ban (FastSeq, section 4.2)."""

from __future__ import annotations

import numpy as np


def ban_ngrams(scores_RV, tokens_RM, length_R, n, out=None):
    """The dictionary loop that FastSeq found in fairseq: every n-gram of a row, keyed by its first n-1 tokens."""
    if out is not None:
        out[...] = scores_RV
        scores_RV = out
    for r, length in enumerate(length_R):
        history = tokens_RM[r, :length].tolist()
        followers: dict[tuple[int, ...], list[int]] = {}
        for i in range(len(history) - n + 1):
            *context, last = history[i : i + n]
            followers.setdefault(tuple(context), []).append(last)
        tail = tuple(history[length - n + 1 :]) if n > 1 else ()
        scores_RV[r, followers.get(tail, [])] = -np.inf
    return scores_RV
