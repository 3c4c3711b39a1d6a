"""leaves out what is behind the last whole group of 32 columns."""

from minidecode.reference import running as reference


def add_running(scores_RV, running_R, out=None):
    reference.add_running(scores_RV[:, : scores_RV.shape[1] // 32 * 32], running_R)
    return scores_RV
