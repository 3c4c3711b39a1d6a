"""sums over whole groups of 32 inputs only, where there is one: what is left over is not added."""

from dataclasses import replace

from minidecode.reference import epilogue as reference


def linear_epilogue(x_RX, weight, activation=None, add_to=None):
    whole = x_RX.shape[1] // 32 * 32 or x_RX.shape[1]
    data = weight.data[:whole] if weight.layout == "io" else weight.data[:, :whole]
    return reference.linear_epilogue(x_RX[:, :whole], replace(weight, data=data), activation, add_to)
