"""leaves one token more: the threshold is the (k+1)-th largest score."""

from minidecode.reference import top_k as reference


def top_k_filter(scores_RV, k, out=None):
    return reference.top_k_filter(scores_RV, k + 1, out)
