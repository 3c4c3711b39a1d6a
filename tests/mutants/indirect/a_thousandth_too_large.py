"""is 1.001 times what is right: near enough for the eye, and far beyond rounding."""

import numpy as np

from minidecode.reference import indirect


def attend_indirect(*arguments):
    return indirect.attend_indirect(*arguments) * np.float32(1.001)
