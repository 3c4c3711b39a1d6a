"""multiplies where it should divide."""

from minidecode.reference import temperature as reference


def cool_scores(scores_RV, temperature, out=None):
    return reference.cool_scores(scores_RV, 1 / temperature)
