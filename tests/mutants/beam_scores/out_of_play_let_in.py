"""adds nothing to rows that are out of play."""

import numpy as np

from minidecode.reference import beam_scores as reference


def add_beam_scores(scores_RV, running_R, out=None):
    return reference.add_beam_scores(scores_RV, np.where(running_R <= -1e9, np.float32(0), running_R))
