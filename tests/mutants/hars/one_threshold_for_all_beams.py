"""retrieves by one threshold for the logits of all beams, which are not comparable before they are probabilities."""

import numpy as np

from minidecode.reference.candidates import group_maxima
from minidecode.reference.hars import hars_candidates_naive


def hars_candidates(logits_RV, base_BW, C, out=None):
    (B, W), V = base_BW.shape, logits_RV.shape[1]
    logits_BX = logits_RV.reshape(B, W * V)
    threshold_B1 = np.array([[group_maxima(logits_X, C).min()] for logits_X in logits_BX])
    best_BX, parent_BX, token_BX = hars_candidates_naive(logits_RV, base_BW, W * V)
    best_BX[np.take_along_axis(logits_BX < threshold_B1, parent_BX * V + token_BX, axis=1)] = -np.inf
    order_BC = np.argsort(-best_BX, axis=1, kind="stable")[:, :C]
    return tuple(np.take_along_axis(array_BX, order_BC, axis=1) for array_BX in (best_BX, parent_BX, token_BX))
