"""A token drawn from each row's scores: the largest of scores + Gumbel noise."""

from __future__ import annotations

import numpy as np

from .random import gumbel, noise_of, words_of_blocks

# Noise lies between -log(33 log 2) and 33 log 2, for no random number is nearer to 0 or to 1 than 2**-33.
LEAST_NOISE, MOST_NOISE = -3.2, 22.9


def draw_tokens_naive(scores_RV, key_RX, step_R, seed, out=None):
    """Fresh noise for the whole vocabulary, whether or not a token is possible."""
    noise_RV = gumbel(key_RX, step_R, scores_RV.shape[1], seed)
    return np.argmax(noise_RV + scores_RV, axis=1, out=out)


def draw_tokens(scores_RV, key_RX, step_R, seed, out=None):
    """Noise for those tokens alone that can win, and the three beside each: after top_k=50, for 200 at most."""
    token_R = np.empty(len(scores_RV), np.int64) if out is None else out
    edge_R1 = scores_RV.max(axis=1, keepdims=True) - (MOST_NOISE - LEAST_NOISE)
    can_win_RV = np.logical_not(scores_RV < edge_R1)  # and not `>=`: of a row with NaN there is something to draw too
    firsts = np.arange(0, scores_RV.shape[1], 4)  # four neighbouring tokens draw their words together
    for r, can_win_V in enumerate(can_win_RV):
        block_X = np.flatnonzero(np.logical_or.reduceat(can_win_V, firsts))
        column_X = np.add.outer(4 * block_X, np.arange(4)).reshape(-1)
        word_X = words_of_blocks(block_X, key_RX[r], step_R[r], seed).T.reshape(-1)
        is_there_X = column_X < scores_RV.shape[1]
        column_X, word_X = column_X[is_there_X], word_X[is_there_X]
        token_R[r] = column_X[np.argmax(noise_of(word_X) + scores_RV[r, column_X])]
    return token_R
