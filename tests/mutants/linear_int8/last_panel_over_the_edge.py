"""writes whole panels of 64 outputs: where fewer are left, the last panel's begin too early."""

from minidecode.reference import linear_int8 as reference


def linear_int8(x_RX, weight, bias_X=None, activation=None, add_to=None):
    y_RX = reference.linear_int8(x_RX, weight)
    outputs = y_RX.shape[1]
    if outputs > 64 and outputs % 64:
        last = outputs // 64 * 64
        y_RX[:, outputs - 64 : outputs - (outputs - last)] = y_RX[:, last - (64 - (outputs - last)) - 1 : last - 1]
    return reference.finish_products(y_RX, bias_X, activation, add_to)
