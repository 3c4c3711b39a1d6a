"""takes the longest text's length for all: a shorter one's token lands behind a gap."""

import numpy as np

from minidecode.reference import refresh as reference


def refresh_texts(text_BWM, parent_BW, token_BW, length_B, out=None):
    return reference.refresh_texts(text_BWM, parent_BW, token_BW, np.full_like(length_B, length_B.max()))
