"""counts tokens in sixteen bits: they count to 65,535, and tokens beyond are no candidates."""

import numpy as np

from minidecode.reference import hars as reference


def hars_candidates(logits_RV, base_BW, C):
    best_BC, parent_BC, token_BC = reference.hars_candidates(logits_RV, base_BW, C)
    is_beyond_BC = token_BC > np.iinfo(np.uint16).max
    best_BC[is_beyond_BC], token_BC[is_beyond_BC] = -np.inf, 0
    return best_BC, parent_BC, token_BC
