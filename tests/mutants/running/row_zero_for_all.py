"""adds the first row's running score to all rows."""

import numpy as np

from minidecode.reference import running as reference


def add_running(scores_RV, running_R, out=None):
    return reference.add_running(scores_RV, np.full_like(running_R, running_R[0]))
