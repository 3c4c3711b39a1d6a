"""leaves out the bias, as a product by itself does."""

from dataclasses import replace

from minidecode.reference import epilogue as reference


def linear_epilogue(x_RX, weight, activation=None, add_to=None):
    return reference.linear_epilogue(x_RX, replace(weight, bias=None), activation, add_to)
