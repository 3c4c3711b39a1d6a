"""compares n tokens where n-1 are asked for: it bans what would repeat an (n+1)-gram."""

from minidecode.reference import ngram


def ban_ngrams(scores_RV, tokens_RM, length_R, n, out=None):
    return ngram.ban_ngrams(scores_RV, tokens_RM, length_R, n + 1)
