"""counts the new token as written already: it lands on the last one of its text."""

import numpy as np

from minidecode.reference import sequences as reference


def update_sequences(text_BWM, parent_BW, token_BW, length_B, out=None):
    return reference.update_sequences(text_BWM, parent_BW, token_BW, np.maximum(length_B - 1, 0))
