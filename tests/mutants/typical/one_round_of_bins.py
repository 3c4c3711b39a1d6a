"""takes the whole bin in which the mass is reached, of 256: too many tokens where several share one."""

import numpy as np

from minidecode.reference.typical import weights_and_distances


def typical_filter(scores_RV, mass, least=1, out=None):
    for scores_V in scores_RV:
        if np.isfinite(scores_V.max()):
            weight_V, distance_V, need = weights_and_distances(scores_V, mass)
            order_V, finite_V = np.argsort(distance_V, kind="stable"), distance_V[np.isfinite(distance_V)]
            width = (finite_V.max() - finite_V.min()) / 256 or 1.0
            bin_V = np.minimum((distance_V - finite_V.min()) / width, 255 + np.isinf(distance_V)).astype(int)
            last = order_V[int(np.argmax(np.cumsum(weight_V[order_V]) >= need))]
            stays_V = bin_V <= bin_V[last]
            stays_V[order_V[:least]] = True
            scores_V[~stays_V] = -np.inf
    return scores_RV
