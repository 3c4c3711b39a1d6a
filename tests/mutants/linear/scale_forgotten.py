"""multiplies by the whole numbers as they are stored, without their scales."""

from dataclasses import replace

from minidecode.reference import linear as reference


def linear(x_RX, weight):
    return reference.linear(x_RX, replace(weight, scale=None))
