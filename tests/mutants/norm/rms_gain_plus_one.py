"""multiplies by 1 + gain in an RMS norm: some models store their gains so, and these do not."""

from minidecode.ops import Norm
from minidecode.reference import norm as reference


def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    gain_D = norm.gain_D + 1 if norm.bias_D is None else norm.gain_D
    return reference.residual_norm(x_RD, y_RD, bias_D, Norm(gain_D, norm.bias_D, norm.eps))
