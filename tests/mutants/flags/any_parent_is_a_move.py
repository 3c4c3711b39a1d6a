"""takes every parent but beam 0 for a move."""

import numpy as np

from minidecode.reference import flags as reference


def step_flags(done_X, trouble_X, parent_BW, model_trouble_R=None, out=None):
    moved_BW = np.where(parent_BW == 0, np.arange(parent_BW.shape[1]), -1)
    return reference.step_flags(done_X, trouble_X, moved_BW, model_trouble_R)
