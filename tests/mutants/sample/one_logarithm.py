"""adds -log(u) where -log(-log(u)) is due: noise of another law."""

import numpy as np

from minidecode.reference.random import gumbel


def sample_tokens(scores_RV, key_RX, step_R, seed, out=None):
    return (np.exp(-gumbel(key_RX, step_R, scores_RV.shape[1], seed)) + scores_RV).argmax(axis=1)
