"""keeps a running maximum, and adds to a sum that still stands on an earlier one."""

import numpy as np

from minidecode.reference.candidates import top_candidates_naive


def hars_candidates(logits_RV, base_BW, C, out=None):
    with np.errstate(over="ignore", invalid="ignore"):
        largest_RV = np.maximum.accumulate(logits_RV, axis=1)
        terms_RV = np.where(logits_RV == -np.inf, 0, np.exp(logits_RV - largest_RV))
        terms_RV[largest_RV[:, -1] == -np.inf] = np.nan
        scores_RV = logits_RV - largest_RV[:, -1:] - np.log(terms_RV.sum(axis=1, keepdims=True))
    total_BWV = scores_RV.reshape(*base_BW.shape, -1) + base_BW[:, :, None]
    best_BC, index_BC = top_candidates_naive(total_BWV.reshape(len(base_BW), -1), C)
    return best_BC, *np.divmod(index_BC, logits_RV.shape[1])
