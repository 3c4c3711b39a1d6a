"""gives every layer the keys and values of the first."""

from minidecode.reference import cross_kv


def project_cross_kv(h_RD, weight, heads, out=None):
    k_SRGK, v_SRGU = cross_kv.project_cross_kv(h_RD, weight, heads)
    k_SRGK[1:], v_SRGU[1:] = k_SRGK[:1], v_SRGU[:1]
    return k_SRGK, v_SRGU
