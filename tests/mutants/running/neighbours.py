"""adds the running score of the row behind."""

import numpy as np

from minidecode.reference import running as reference


def add_running(scores_RV, running_R, out=None):
    return reference.add_running(scores_RV, np.roll(running_R, -1))
