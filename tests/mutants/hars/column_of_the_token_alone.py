"""returns the token, v, where the column is due, w*V + v: which beam it continues is lost."""

from minidecode.reference import hars as reference


def hars_candidates(logits_RV, base_BW, C, out=None):
    best_BC, index_BC = reference.hars_candidates(logits_RV, base_BW, C)
    return best_BC, index_BC % logits_RV.shape[1]
