"""Keys and values of a source for all decoder layers (LightSeq, section 2.1: `ker_arrange_encdec_kv`).

The product is that of cuda/linear.py: the library's, where rows are many. Behind it:
1. A launch for each layer, of heads.py's kernel.
2. One for all of them. Layers are an axis of the grid, so that no thread divides to find its own; neighbouring threads
   read neighbouring columns of a row, and write neighbouring numbers of its keys, or of its values.
"""

from __future__ import annotations

from numba import cuda, float32

from ..reference import or_empty
from ..reference.cross_kv import results
from ..runtime.launch import launch
from ..runtime.low_precision import rounding
from .common.bias import plus
from .heads import THREADS, add_and_cut, per_row
from .linear import linear
from .linear_int8 import linear_int8


@rounding
def project_cross_kv_v1(h_RD, weight, heads, out=None):
    k_SRX, v_SRX, kv_RX, bias_X = _product(h_RD, weight, heads, out)
    width = kv_RX.shape[1] // len(k_SRX)
    for s in range(len(k_SRX)):
        here = slice(s * width, (s + 1) * width)
        no_queries_RX = k_SRX[s, :, :0]
        given = kv_RX[:, here], bias_X[here], no_queries_RX, k_SRX[s], v_SRX[s]
        launch(add_and_cut, per_row(kv_RX[:, here]), THREADS, *given)
    return _in_heads(k_SRX, v_SRX, heads)


@rounding
def project_cross_kv(h_RD, weight, heads, out=None):
    """Version 2."""
    k_SRX, v_SRX, kv_RX, bias_X = _product(h_RD, weight, heads, out)
    (S, R, _), width = k_SRX.shape, k_SRX.shape[2] + v_SRX.shape[2]
    launch(arrange_layers, (R, -(-width // THREADS), S), THREADS, kv_RX, bias_X, k_SRX, v_SRX)
    return _in_heads(k_SRX, v_SRX, heads)


@cuda.jit
def arrange_layers(kv_RX, bias_X, k_SRX, v_SRX):
    r, x, s = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x, cuda.blockIdx.z
    values, width = k_SRX.shape[2], k_SRX.shape[2] + v_SRX.shape[2]
    if x >= width:
        return
    number = plus(kv_RX[r, s * width + x], bias_X, s * width + x)
    if x < values:
        k_SRX[s, r, x] = number
    else:
        v_SRX[s, r, x - values] = number


def _product(h_RD, weight, heads, out):
    """(where keys go, where values go, the product of all layers, its bias); heads side by side."""
    k_SRGK, v_SRGU = results(h_RD, weight, heads, out)
    kv_RX = linear(h_RD, weight) if weight.x_bits is None else linear_int8(h_RD, weight)
    S, R, _, _ = k_SRGK.shape
    return k_SRGK.reshape(S, R, -1), v_SRGU.reshape(S, R, -1), kv_RX, or_empty(weight.bias, kv_RX[:, 0])


def _in_heads(k_SRX, v_SRX, heads):
    return tuple(a.reshape(*a.shape[:2], heads.G, -1) for a in (k_SRX, v_SRX))


# What each kernel is compiled and type-checked for, without a GPU.
LAYERS_SRX = float32[:, :, ::1]
SIGNATURES = {arrange_layers: [(float32[:, ::1], float32[::1], LAYERS_SRX, LAYERS_SRX)]}
