"""starts its sums at the residual, and adds it once more at the end."""

import numpy as np

from minidecode.reference import epilogue as reference


def linear_epilogue(x_RX, weight, activation=None, add_to=None):
    if add_to is None:
        return reference.linear_epilogue(x_RX, weight, activation)
    y_RX = reference.linear_epilogue(x_RX, weight, activation, add_to.copy())
    return np.add(add_to, y_RX, out=add_to)
