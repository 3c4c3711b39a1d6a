"""is 1.001 times what is right: near enough for the eye, and far beyond rounding."""

import numpy as np

from minidecode.reference import el


def attend_el(*arguments):
    return el.attend_el(*arguments) * np.float32(1.001)
