"""Keys and values of a source for all decoder layers: one product, or one for each layer (LightSeq, section 2.1)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..device.low_precision import cast_for_cache, is_narrow, round_rows_to_float16, rounding, unpack_panels
from .heads import split_heads_naive
from .linear import linear, linear_naive
from .linear_int8 import linear_int8, linear_int8_naive


def project_cross_kv_naive(h_RD, weight, heads, dtype=None, out=None):
    """A product for each layer, which reads the source as often; then its bias, and the cut into heads."""
    k_SRGK, v_SRGU = result_arrays(h_RD, weight, heads, dtype, out)
    weight, width = unpack_panels(weight), heads.G * (heads.K + heads.U)
    multiply = linear_naive if weight.x_bits is None else linear_int8_naive
    for s in range(len(k_SRGK)):
        part = weight.of_outputs(slice(s * width, (s + 1) * width))
        _, k_SRGK[s], v_SRGU[s] = split_heads_naive(multiply(h_RD, part), part.bias, replace(heads, H=0), dtype)
    return k_SRGK, v_SRGU


def project_cross_kv(h_RD, weight, heads, dtype=None, out=None, *, workspace=None):
    """One product. Its columns are those of all layers side by side; each number goes where it stays, bias added."""
    multiply = linear if weight.x_bits is None else linear_int8
    return arrange_layers(multiply(h_RD, weight, workspace=workspace), weight, heads, dtype, out)


@rounding
def project_cross_kv_rounded(h_RD, weight, heads, dtype=None, out=None, *, workspace=None):
    """What devices compute (`linear_rounded`). int8_dynamic rounds rows to bytes anyway."""
    h_RD = round_rows_to_float16(h_RD) if is_narrow(weight) and weight.x_bits is None else h_RD
    return project_cross_kv(h_RD, weight, heads, dtype, out, workspace=workspace)


def arrange_layers(kv_RX, weight, heads, dtype=None, out=None):
    """What the product of all layers becomes: LightSeq's `ker_arrange_encdec_kv`."""
    k_SRGK, v_SRGU = result_arrays(kv_RX, weight, heads, dtype, out)
    S, R, G, K = k_SRGK.shape
    kv_SRX = kv_RX.reshape(R, S, -1).swapaxes(0, 1)
    bias_S1X = np.zeros_like(kv_SRX[:, :1]) if weight.bias is None else weight.bias.reshape(S, 1, -1)
    for columns, result in ((slice(G * K), k_SRGK), (slice(G * K, None), v_SRGU)):
        result_SRX = result.reshape(S, R, -1)
        if result.dtype == kv_RX.dtype:
            np.add(kv_SRX[..., columns], bias_S1X[..., columns], out=result_SRX)
        else:
            result_SRX[...] = cast_for_cache(result.dtype, kv_SRX[..., columns] + bias_S1X[..., columns])
    return k_SRGK, v_SRGU


def result_arrays(x_RX, weight, heads, dtype, out):
    """The arrays for keys and values of all layers; the product's outputs say how many layers."""
    if out is not None:
        return out
    stack = weight.outputs // (heads.G * (heads.K + heads.U)), len(x_RX), heads.G
    return tuple(np.empty_like(x_RX, dtype, shape=(*stack, width), order="C") for width in (heads.K, heads.U))
