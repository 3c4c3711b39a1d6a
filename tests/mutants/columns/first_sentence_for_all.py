"""gives all sentences what the first one has."""

import numpy as np

from minidecode.reference import columns as reference


def split_columns(index_BC, V, out=None):
    return reference.split_columns(np.repeat(index_BC[:1], len(index_BC), axis=0), V)
