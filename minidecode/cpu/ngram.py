"""The no-repeat-n-gram ban (FastSeq, section 4.2), compiled for the CPU."""

from __future__ import annotations

import numpy as np

from .common.jit import njit


def ban_ngrams(scores_RV, tokens_RM, length_R, n, out=None):
    """The three loops of Algorithm 1, which stop at the first token that differs; no list, no dictionary."""
    if out is not None:
        out[...] = scores_RV
        scores_RV = out
    _ban_in_rows(scores_RV, tokens_RM, length_R, n)
    return scores_RV


@njit(cache=True)
def _ban_in_rows(scores_RV, tokens_RM, length_R, n):
    for r in range(len(length_R)):
        tail = length_R[r] - n + 1  # where the last n-1 tokens begin
        for start in range(tail):
            same = 0
            while same < n - 1 and tokens_RM[r, start + same] == tokens_RM[r, tail + same]:
                same += 1
            if same == n - 1:
                scores_RV[r, tokens_RM[r, start + n - 1]] = -np.inf
