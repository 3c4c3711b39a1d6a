"""leaves the scores as they are."""


def add_running(scores_RV, running_R, out=None):
    return scores_RV
