"""leaves out the bias of the product before it."""

from minidecode.reference import norm as reference


def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    return reference.residual_norm(x_RD, y_RD, None, norm)
