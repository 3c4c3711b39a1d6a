"""leaves the bias out."""

from dataclasses import replace

from minidecode.reference import cross_kv


def project_cross_kv(h_RD, weight, heads, out=None):
    return cross_kv.project_cross_kv(h_RD, replace(weight, bias=None), heads)
