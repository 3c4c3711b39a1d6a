"""keeps tokens in sixteen bits: they count to 65,535, and larger vocabularies have tokens beyond."""

import numpy as np

from minidecode.reference import beam_update as reference


def update_beams(score_BC, parent_BC, token_BC, *rest, out=None):
    return reference.update_beams(score_BC, parent_BC, token_BC.astype(np.uint16).astype(np.int64), *rest, out=out)
