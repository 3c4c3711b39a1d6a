"""leaves the likeliest tokens of that mass, as top_p does."""

from minidecode.reference import top_p


def typical_filter(scores_RV, mass, least=1, out=None):
    return top_p.top_p_filter(scores_RV, mass, least)
