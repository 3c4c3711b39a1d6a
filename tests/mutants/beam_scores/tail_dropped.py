"""leaves out what is behind the last whole group of 32 columns."""

from minidecode.reference import beam_scores as reference


def add_beam_scores(scores_RV, running_R, out=None):
    reference.add_beam_scores(scores_RV[:, : scores_RV.shape[1] // 32 * 32], running_R)
    return scores_RV
