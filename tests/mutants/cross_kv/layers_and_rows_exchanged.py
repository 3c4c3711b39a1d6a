"""reads the rows of the product as if those of one layer stood together: layers and rows change places."""

from minidecode.reference import cross_kv


def project_cross_kv(h_RD, weight, heads, out=None):
    both = cross_kv.project_cross_kv(h_RD, weight, heads)
    return tuple(a.swapaxes(0, 1).reshape(a.shape).copy() for a in both)
