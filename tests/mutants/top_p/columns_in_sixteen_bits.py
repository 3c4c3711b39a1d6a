"""counts columns in sixteen bits: they count to 65,535, and columns beyond stay as they are."""

from minidecode.reference import top_p as reference


def top_p_filter(scores_RV, p, least):
    beyond = scores_RV[:, 65_536:].copy()
    reference.top_p_filter(scores_RV, p, least)
    scores_RV[:, 65_536:] = beyond
    return scores_RV
