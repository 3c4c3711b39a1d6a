"""A token drawn from each row's scores: the largest of scores + Gumbel noise."""

from __future__ import annotations

import numpy as np

from . import scratch
from .random import gumbel, noise_of_words, words_of_blocks

# Noise lies between -log(33 log 2) and 33 log 2, for no random number is nearer to 0 or to 1 than 2**-33.
LEAST_NOISE, MOST_NOISE = -3.2, 22.9


def sample_tokens_naive(scores_RV, key_RX, step_R, seed, out=None):
    """Fresh noise for the whole vocabulary, whether or not a token is possible."""
    noise_RV = gumbel(key_RX, step_R, scores_RV.shape[1], seed)
    return np.argmax(noise_RV + scores_RV, axis=1, out=out)


def sample_tokens(scores_RV, key_RX, step_R, seed, out=None, *, workspace=None):
    """Noise for those tokens alone that can win, and the three beside each: after top_k=50, for 200 at most."""
    token_R = np.empty(len(scores_RV), np.int64) if out is None else out
    V = scores_RV.shape[1]
    can_win_V = scratch(workspace, -(-V // 4) * 4, scores_RV, np.bool_)
    can_win_V[V:] = False
    can_win_in_X = scratch(workspace, len(can_win_V) // 4, scores_RV, np.bool_)
    for r, scores_V in enumerate(scores_RV):
        np.less(scores_V, scores_V.max() - (MOST_NOISE - LEAST_NOISE), out=can_win_V[:V])
        np.logical_not(can_win_V[:V], out=can_win_V[:V])  # and not `>=`: a row with NaN has something to draw too
        # four neighbouring tokens draw their words together
        block_X = np.flatnonzero(can_win_V.reshape(-1, 4).any(axis=1, out=can_win_in_X))
        column_X = np.add.outer(4 * block_X, np.arange(4)).reshape(-1)
        word_X = words_of_blocks(block_X, key_RX[r], step_R[r], seed).T.reshape(-1)
        is_there_X = column_X < V
        column_X, word_X = column_X[is_there_X], word_X[is_there_X]
        token_R[r] = column_X[np.argmax(noise_of_words(word_X) + scores_RV[r, column_X])]
    return token_R
