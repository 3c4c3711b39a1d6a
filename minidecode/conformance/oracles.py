"""What the answer is, said once more in the plainest way, by nobody who implements the op. Float64 where it matters."""

from __future__ import annotations

import math

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


def layer_norm(x_RD, norm):
    """Row by row, with sums that round once."""
    rows = []
    for row in np.asarray(x_RD, np.float64):
        mean = math.fsum(row) / len(row)
        variance = math.fsum((v - mean) ** 2 for v in row) / len(row)
        scaled = (row - mean) / math.sqrt(variance + norm.eps)
        rows.append(scaled * norm.gain_D.astype(np.float64) + norm.bias_D.astype(np.float64))
    return np.array(rows)


def residual_norm(x_RD, y_RD, bias_D, norm):
    """Everything in float64: the sum too, which a float32 implementation rounds before it normalises."""
    summed_RD = x_RD.astype(np.float64) + y_RD + (0 if bias_D is None else bias_D)
    return summed_RD, layer_norm(summed_RD, norm)
