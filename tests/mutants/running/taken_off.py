"""takes the running score off."""

from minidecode.reference import running as reference


def add_running(scores_RV, running_R, out=None):
    return reference.add_running(scores_RV, -running_R)
