"""leaves the beam in the token."""

from minidecode.reference import columns as reference


def split_columns(index_BC, V, out=None):
    parent_BC, _ = reference.split_columns(index_BC, V)
    return parent_BC, index_BC.copy()
