"""says that all are done when one is."""

import numpy as np

from minidecode.reference import tell as reference


def tell_step(done_X, trouble_X, parent_BW, model_trouble_R=None, out=None):
    return reference.tell_step(np.array([done_X.any()]), trouble_X, parent_BW, model_trouble_R)
