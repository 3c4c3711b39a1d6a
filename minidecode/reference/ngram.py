"""The no-repeat-n-gram ban (FastSeq, section 4.2)."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def ban_ngrams_naive(scores_RV, tokens_RM, length_R, n, out=None):
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


def ban_ngrams(scores_RV, tokens_RM, length_R, n, out=None):
    """All windows of n tokens at once: where the first n-1 are the row's last n-1, the n-th is banned."""
    if out is not None:
        out[...] = scores_RV
        scores_RV = out
    for r, length in enumerate(length_R):
        if length >= n:
            windows_XN = sliding_window_view(tokens_RM[r, :length], n)
            repeats_X = (windows_XN[:, :-1] == tokens_RM[r, length - n + 1 : length]).all(axis=1)
            scores_RV[r, windows_XN[repeats_X, -1]] = -np.inf
    return scores_RV
