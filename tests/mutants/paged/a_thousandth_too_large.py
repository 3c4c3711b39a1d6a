"""gives a result that is a thousandth too large."""

import numpy as np

from minidecode.reference import paged


def attend_paged(*arguments):
    return paged.attend_paged(*arguments) * np.float32(1.001)
