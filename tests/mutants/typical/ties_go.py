"""lets no more tokens stay than the mass needs: of those that tie with the last, higher columns go."""

import numpy as np

from minidecode.reference.typical import weights_and_distances


def typical_filter(scores_RV, mass, least=1, out=None):
    for scores_V in scores_RV:
        if np.isfinite(scores_V.max()):
            weight_V, distance_V, need = weights_and_distances(scores_V, mass)
            order_V = np.argsort(distance_V, kind="stable")
            stays = max(least, 1 + int(np.argmax(np.cumsum(weight_V[order_V]) >= need)))
            scores_V[order_V[stays:]] = -np.inf
    return scores_RV
