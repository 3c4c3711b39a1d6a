"""Keys and values of a source for all decoder layers: the products of cpu/linear.py and cpu/linear_int8.py.

Where float32 weights lie in panels, the keys of each layer are a product of their own, and so are its values: their
bias is added while they are in a cache, and they are written once, where they stay. One product for all layers, whose
numbers are moved afterwards, takes 246 ms in place of 126 (BART-base, 2,048 rows, two threads of an Emerald Rapids).
Products of int8_dynamic take as long either way, 73 and 74 ms.
"""

from __future__ import annotations

import numpy as np

from ..device.capture import contiguous_array
from ..reference.cross_kv import arrange_layers, result_arrays
from .common.code_paths import COMPILED, count_call
from .common.panel_gemm import multiply_floats
from .linear import linear
from .linear_int8 import linear_int8


def project_cross_kv(h_RD, weight, heads, dtype=None, out=None, *, workspace=None):
    """In place where each layer's keys and values are whole panels of float32; else one product, then NumPy."""
    k_SRGK, v_SRGU = result_arrays(h_RD, weight, heads, dtype, out)
    if not _are_whole_panels(h_RD, weight, heads, k_SRGK, v_SRGU):
        multiply = linear if weight.x_bits is None else linear_int8
        return arrange_layers(multiply(h_RD, weight, workspace=workspace), weight, heads, dtype, (k_SRGK, v_SRGU))
    count_call(COMPILED)
    h_RD, first = contiguous_array(h_RD), 0
    for layer in zip(k_SRGK, v_SRGU, strict=True):
        for result_RGK in layer:
            y_RX = result_RGK.reshape(len(h_RD), -1)
            part = weight.of_outputs(slice(first, first + y_RX.shape[1]))
            multiply_floats(h_RD, part, y_RX, bias_X=part.bias)
            first += y_RX.shape[1]
    return k_SRGK, v_SRGU


def _are_whole_panels(h_RD, weight, heads, k_SRGK, v_SRGU):
    """Whether keys and values of each layer fill whole panels, and all arrays are contiguous and float32."""
    return (
        weight.layout == "panels" and weight.scale is None and len(h_RD) > 0 and h_RD.dtype == np.float32
        and all(heads.G * width % weight.data.shape[2] == 0 for width in (heads.K, heads.U))
        and all(x_SRGK.dtype == np.float32 and x_SRGK.flags.c_contiguous for x_SRGK in (k_SRGK, v_SRGU))
    )  # fmt: skip
