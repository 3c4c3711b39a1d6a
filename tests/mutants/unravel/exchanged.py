"""calls the beam the token and the token the beam."""

from minidecode.reference import unravel as reference


def unravel_candidates(index_BC, V, out=None):
    parent_BC, token_BC = reference.unravel_candidates(index_BC, V)
    return token_BC, parent_BC
