"""leaves the beam in the token."""

from minidecode.reference import unravel as reference


def unravel_candidates(index_BC, V, out=None):
    parent_BC, _ = reference.unravel_candidates(index_BC, V)
    return parent_BC, index_BC.copy()
