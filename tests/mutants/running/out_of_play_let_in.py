"""adds nothing to rows that are out of play."""

import numpy as np

from minidecode.reference import running as reference


def add_running(scores_RV, running_R, out=None):
    return reference.add_running(scores_RV, np.where(running_R <= -1e9, np.float32(0), running_R))
