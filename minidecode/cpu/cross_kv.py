"""Keys and values of a source for all decoder layers: the products of cpu/linear.py and cpu/linear_int8.py.

Where weights lie in panels, the keys of each layer are a product of their own, and so are its values: their bias is
added while they are in a cache, and they are written once, where they stay. One product for all layers, whose numbers
are moved afterwards, takes longer: for BART and 4 x 512 tokens 36 ms on top of 110, two threads of an Emerald Rapids.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..device.capture import contiguous
from ..device.weight_blocks import is_in_blocks
from ..reference.cross_kv import arranged, results
from .common.code_paths import COMPILED, ran
from .common.panel_gemm import multiply_floats
from .linear import linear
from .linear_int8 import linear_int8


def project_cross_kv(h_RD, weight, heads, dtype=None, out=None, *, workspace=None):
    """In place where each layer's keys and values are whole panels; else one product, and NumPy for what follows."""
    k_SRGK, v_SRGU = results(h_RD, weight, heads, dtype, out)
    if not _are_whole_panels(h_RD, weight, heads, k_SRGK, v_SRGU):
        multiply = linear if weight.x_bits is None else linear_int8
        return arranged(multiply(h_RD, weight, workspace=workspace), weight, heads, dtype, (k_SRGK, v_SRGU))
    h_RD, first = contiguous(h_RD), 0
    for layer in zip(k_SRGK, v_SRGU, strict=True):
        for result_RGK in layer:
            y_RX = result_RGK.reshape(len(h_RD), -1)
            part = _outputs_of(weight, first, first + y_RX.shape[1])
            if weight.x_bits is None:
                ran(COMPILED)
                multiply_floats(h_RD, part, y_RX, bias_X=part.bias)
            else:
                linear_int8(h_RD, part, part.bias, out=y_RX, workspace=workspace)
            first += y_RX.shape[1]
    return k_SRGK, v_SRGU


def _are_whole_panels(h_RD, weight, heads, k_SRGK, v_SRGU):
    """And numbers are float32, side by side."""
    return (
        weight.layout == "panels" and not is_in_blocks(weight) and len(h_RD) > 0 and h_RD.dtype == np.float32
        and all(heads.G * width % weight.data.shape[2] == 0 for width in (heads.K, heads.U))
        and all(x_SRGK.dtype == np.float32 and x_SRGK.flags.c_contiguous for x_SRGK in (k_SRGK, v_SRGU))
    )  # fmt: skip


def _outputs_of(weight, first, last):
    """Outputs first to last of a weight in panels: a view."""
    panel = weight.data.shape[2]
    bias, scale = (None if x_X is None else x_X[first:last] for x_X in (weight.bias, weight.scale))
    data = weight.data[first // panel : last // panel]
    return replace(weight, data=data, bias=bias, scale=scale, packed_outputs=last - first)
