"""rules out the token with which the mass is reached."""

import numpy as np

from minidecode.reference.typical import weights_and_distances


def typical_filter(scores_RV, mass, least=1, out=None):
    for scores_V in scores_RV:
        if np.isfinite(scores_V.max()):
            weight_V, distance_V, need = weights_and_distances(scores_V, mass)
            order_V = np.argsort(distance_V, kind="stable")
            stays = max(least, int((np.cumsum(weight_V[order_V]) < need).sum()))
            scores_V[order_V[stays:]] = -np.inf
    return scores_RV
