"""measures the distance from the likeliest token's surprise, not from the mean of all."""

import numpy as np

from minidecode.reference import typical as reference


def typical_filter(scores_RV, mass, least=1, out=None):
    for scores_V in scores_RV:
        if np.isfinite(scores_V.max()):
            weight_V, _, need = reference.weights_and_distances(scores_V, mass)
            x_V = np.float64(scores_V.max()) - scores_V
            order_V = np.argsort(x_V, kind="stable")
            last = order_V[int(np.argmax(np.cumsum(weight_V[order_V]) >= need))]
            stays_V = x_V <= x_V[last]
            stays_V[order_V[:least]] = True
            scores_V[~stays_V] = -np.inf
    return scores_RV
