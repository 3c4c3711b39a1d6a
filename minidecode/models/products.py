"""Matrix products and what follows them: one fused op, or several ops, as the plan and the weights say."""

from __future__ import annotations


def product(ops, x_RX, weight):
    """x W, without the bias. Where the weight says so, rows are rounded and integers multiplied."""
    return ops.linear(x_RX, weight) if weight.x_bits is None else ops.linear_int8(x_RX, weight)


def activated_product(ops, x_RX, weight, activation):
    """act(x W + bias)."""
    if weight.x_bits is not None:
        return ops.linear_int8(x_RX, weight, weight.bias, activation)
    if hasattr(ops, "linear_epilogue"):
        return ops.linear_epilogue(x_RX, weight, activation)
    return ops.bias_activation(ops.linear(x_RX, weight), weight.bias, activation)


def gated_product(ops, x_RX, weight, activation):
    """act(x W_gate) * (x W_up), biases added if there are any: W has the outputs of both in pairs."""
    return activated_product(ops, x_RX, weight, f"gated-{activation}")


def residual_norm(ops, x_RD, a_RX, weight, norm):
    """x' = x + a W + bias, h = layer_norm(x'). A product that adds itself into the residual changes x in place."""
    if weight.x_bits is not None:
        return ops.residual_norm(ops.linear_int8(a_RX, weight, weight.bias, add_to=x_RD), None, None, norm)
    if hasattr(ops, "linear_epilogue"):
        return ops.residual_norm(ops.linear_epilogue(a_RX, weight, add_to=x_RD), None, None, norm)
    return ops.residual_norm(x_RD, ops.linear(a_RX, weight), weight.bias, norm)
