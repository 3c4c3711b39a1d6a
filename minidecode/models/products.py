"""Matrix products with an epilogue: one fused op, or several ops, as the plan says."""

from __future__ import annotations


def activated(ops, x_RX, weight, activation):
    """act(x W + bias)."""
    if hasattr(ops, "linear_epilogue"):
        return ops.linear_epilogue(x_RX, weight, activation)
    return ops.bias_activation(ops.linear(x_RX, weight), weight.bias, activation)


def residual_norm(ops, x_RD, a_RX, weight, norm):
    """x' = x + a W + bias, h = layer_norm(x'). A product that adds itself into the residual changes x in place."""
    if hasattr(ops, "linear_epilogue"):
        return ops.residual_norm(ops.linear_epilogue(a_RX, weight, add_to=x_RD), None, None, norm)
    return ops.residual_norm(x_RD, ops.linear(a_RX, weight), weight.bias, norm)
