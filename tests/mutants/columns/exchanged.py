"""calls the beam the token and the token the beam."""

from minidecode.reference import columns as reference


def split_columns(index_BC, V, out=None):
    parent_BC, token_BC = reference.split_columns(index_BC, V)
    return token_BC, parent_BC
