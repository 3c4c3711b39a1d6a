"""adds the first row's running score to all rows."""

import numpy as np

from minidecode.reference import beam_scores as reference


def add_beam_scores(scores_RV, running_R, out=None):
    return reference.add_beam_scores(scores_RV, np.full_like(running_R, running_R[0]))
