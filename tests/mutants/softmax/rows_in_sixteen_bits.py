"""counts rows in sixteen bits: they count to 65,535, and rows beyond stay unwritten."""

import numpy as np

from minidecode.reference import softmax as reference


def log_softmax(logits_RV):
    scores_RV, trouble_R = reference.log_softmax(logits_RV)
    scores_RV[np.iinfo(np.uint16).max + 1 :] = -1
    return scores_RV, trouble_R
