"""leaves the scores as they are."""


def add_beam_scores(scores_RV, running_R, out=None):
    return scores_RV
