"""multiplies by the bias and adds the gain."""

from minidecode.ops import Norm
from minidecode.reference import norm as reference


def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    return reference.residual_norm(x_RD, y_RD, bias_D, Norm(norm.bias_D, norm.gain_D, norm.eps))
