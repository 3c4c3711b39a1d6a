"""Biases of tokens that would complete a sequence: banned words, n-grams of the source, tokens that are ruled out."""

from __future__ import annotations

import numpy as np

from . import scores_to_change

NOTHING = -2  # stands in front of a text: no token, and nothing that fits it


def bias_sequences_naive(scores_RV, tokens_RM, length_R, list_R, ids_XXX, bias_XX, out=None):
    """Sequence by sequence, row by row."""
    scores_RV = scores_to_change(scores_RV, out)
    for r in np.flatnonzero(list_R >= 0):
        gains: dict[int, np.floating] = {}
        text = tokens_RM[r, : length_R[r]].tolist()
        for ids_X, bias in zip(ids_XXX[list_R[r]], bias_XX[list_R[r]], strict=True):
            *start, last = [*ids_X[:-1][ids_X[:-1] >= 0].tolist(), int(ids_X[-1])]
            if 0 <= last < scores_RV.shape[1] and text[max(len(text) - len(start), 0) :] == start:
                gains[last] = gains.get(last, scores_RV.dtype.type(0)) + scores_RV.dtype.type(bias)
        for token, gain in gains.items():
            scores_RV[r, token] = -np.inf if gain == -np.inf else scores_RV[r, token] + gain
    return scores_RV


def bias_sequences(scores_RV, tokens_RM, length_R, list_R, ids_XXX, bias_XX, out=None):
    """All sequences and rows at once; sums are over neighbours, for those with the same last token are."""
    scores_RV = scores_to_change(scores_RV, out)
    mine_X = np.flatnonzero(list_R >= 0)
    ids_RXX = ids_XXX[list_R[mine_X]]
    start_RXX, last_RX = ids_RXX[:, :, :-1], ids_RXX[:, :, -1]
    fits_RX = (last_RX >= 0) & (last_RX < scores_RV.shape[1])
    if start_RXX.shape[2]:
        at_RX = length_R[mine_X, None] - np.arange(start_RXX.shape[2], 0, -1)
        tail_RX = np.where(at_RX >= 0, tokens_RM[mine_X[:, None], np.maximum(at_RX, 0)], NOTHING)
        fits_RX &= ((start_RXX == tail_RX[:, None]) | (start_RXX < 0)).all(axis=2)
    r, s = np.nonzero(fits_RX)
    if len(r):
        token, gain = last_RX[r, s], bias_XX[list_R[mine_X[r]], s].astype(scores_RV.dtype)
        begins = np.append(True, (r[1:] != r[:-1]) | (token[1:] != token[:-1]))
        total = np.zeros(begins.sum(), scores_RV.dtype)
        np.add.at(total, np.cumsum(begins) - 1, gain)  # one after the other, as a sum's rounding depends on it
        where = mine_X[r[begins]], token[begins]
        with np.errstate(invalid="ignore"):  # plus infinity that is ruled out
            scores_RV[where] = np.where(total == -np.inf, total, scores_RV[where] + total)
    return scores_RV
