"""counts tokens in sixteen bits: they count to 65,535, and tokens beyond are no candidates."""

import numpy as np

from minidecode.reference import hars as reference


def hars_candidates(logits_RV, base_BW, C):
    best_BC, index_BC = reference.hars_candidates(logits_RV, base_BW, C)
    V = logits_RV.shape[1]
    is_beyond_BC = index_BC % V > np.iinfo(np.uint16).max
    best_BC[is_beyond_BC], index_BC[is_beyond_BC] = -np.inf, index_BC[is_beyond_BC] // V * V
    return best_BC, index_BC
