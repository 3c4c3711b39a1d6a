"""multiplies rows by fours, and leaves those that remain at 0."""

from minidecode.reference import linear as reference


def linear(x_RX, weight):
    y_RX = reference.linear(x_RX, weight)
    y_RX[len(x_RX) // 4 * 4 :] = 0
    return y_RX
