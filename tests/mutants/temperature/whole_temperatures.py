"""takes the temperature as a whole number, 1 at the least."""

from minidecode.reference import temperature as reference


def apply_temperature(scores_RV, temperature, out=None):
    return reference.apply_temperature(scores_RV, max(1, int(temperature)))
