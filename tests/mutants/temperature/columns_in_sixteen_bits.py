"""counts columns in sixteen bits: they count to 65,535, and columns beyond stay as they are."""

from minidecode.reference import temperature as reference


def apply_temperature(scores_RV, temperature):
    reference.apply_temperature(scores_RV[:, :65_536], temperature)
    return scores_RV
