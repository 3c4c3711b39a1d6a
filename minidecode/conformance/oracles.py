"""What the answer is, said once more in the plainest way, by nobody who implements the op. Float64 where it matters."""

from __future__ import annotations

import numpy as np


def ban_ngrams(scores_RV, tokens_RM, length_R, n):
    """A token is banned if writing it would make an n-gram that the text already holds."""
    result_RV = scores_RV.copy()
    for r, length in enumerate(length_R):
        text = tokens_RM[r, :length].tolist()
        grams = {tuple(text[i : i + n]) for i in range(len(text) - n + 1)}
        tail = text[len(text) - n + 1 :]
        if len(text) >= n - 1:
            for gram in grams:
                if list(gram[:-1]) == tail:
                    result_RV[r, gram[-1]] = -np.inf
    return result_RV
