"""takes the model's likeliest token, whatever the processors made of the scores."""

from minidecode.reference import choose as reference


def choose_tokens(scores_RV, logits_RV=None, out=None):
    return reference.choose_tokens(scores_RV if logits_RV is None else logits_RV, logits_RV)
