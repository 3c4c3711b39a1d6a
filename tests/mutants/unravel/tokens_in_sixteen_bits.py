"""keeps tokens in sixteen bits: they count to 65,535, and larger vocabularies have tokens beyond."""

import numpy as np

from minidecode.reference import unravel as reference


def unravel_candidates(index_BC, V):
    parent_BC, token_BC = reference.unravel_candidates(index_BC, V)
    return parent_BC, token_BC.astype(np.uint16).astype(np.int64)
