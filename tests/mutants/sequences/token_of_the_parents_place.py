"""applies the parents to the newest tokens too, which are already in their beams' order."""

import numpy as np

from minidecode.reference import sequences as reference


def update_sequences(text_BWM, parent_BW, token_BW, length_B, out=None):
    token_BW = np.take_along_axis(token_BW, parent_BW, axis=1)
    return reference.update_sequences(text_BWM, parent_BW, token_BW, length_B)
