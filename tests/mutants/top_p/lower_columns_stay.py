"""keeps, of equal scores, the lower columns."""

from minidecode.reference import top_p as reference


def top_p_filter(scores_RV, p, least, out=None):
    scores_RV[...] = reference.top_p_filter(scores_RV[:, ::-1].copy(), p, least)[:, ::-1]
    return scores_RV
