"""multiplies by the bias and adds the gain."""

from minidecode.ops import Norm
from minidecode.reference import norm as reference


def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    if norm.bias_D is None:  # the mistake is one of layer norms alone
        return reference.residual_norm(x_RD, y_RD, bias_D, norm, out)
    return reference.residual_norm(x_RD, y_RD, bias_D, Norm(norm.bias_D, norm.gain_D, norm.eps))
