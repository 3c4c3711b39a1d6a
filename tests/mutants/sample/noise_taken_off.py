"""takes the noise off the scores."""

from minidecode.reference.random import gumbel


def sample_tokens(scores_RV, key_RX, step_R, seed, out=None):
    return (scores_RV - gumbel(key_RX, step_R, scores_RV.shape[1], seed)).argmax(axis=1)
