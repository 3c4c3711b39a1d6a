"""Keys and values of a source for all decoder layers (LightSeq, section 2.1: `ker_arrange_encdec_kv`).

The product is that of cuda/linear.py: the library's, where rows are many. Behind it:
1. A launch for each layer, of heads.py's kernel.
2. One for all of them. Layers are an axis of the grid, so that no thread divides to find its own; neighbouring threads
   read neighbouring columns of a row, and write neighbouring numbers of its keys, or of its values.
3. The same by fours, as in heads.py.

Floor of version 3: the bytes read and written at 2.4 TB/s. BART-large's 12 layers for 8 sources of 1,024 tokens, with a
float16 cache: 1.2 GB, 0.50 ms. Predicted 83 % of that bandwidth, as heads.py: 0.60 ms. Not
measured by itself.
"""

from __future__ import annotations

from numba import cuda, float32, types

from ..device.launch import launch
from ..device.low_precision import largest_stored_number, rounding
from ..reference import or_empty
from ..reference.cross_kv import result_arrays
from .common.bias import with_bias
from .common.cut_off import cut_off
from .common.fours import KEPT, are_whole_fours, grid_of_fours, load_fours, store_fours
from .common.grids import grid_of_rows
from .common.reduction import THREADS
from .common.split_heads import add_and_cut
from .linear import linear
from .linear_int8 import linear_int8


@rounding
def project_cross_kv_v1(h_RD, weight, heads, dtype=None, out=None):
    """Projects a source to keys and values of all layers, then cuts them with a launch for each layer.

    Behind the product, S launches of `add_and_cut` as (R, ceil(G(K+U) / 128)) blocks of 128. Reads 8SRG(K+U) bytes and
    writes sSRG(K+U); s: bytes of a number of the cache.
    """
    k_SRX, v_SRX, kv_RX, bias_X = _project_source(h_RD, weight, heads, dtype, out)
    width = kv_RX.shape[1] // len(k_SRX)
    for s in range(len(k_SRX)):
        here = slice(s * width, (s + 1) * width)
        no_queries_RX = k_SRX[s, :, :0]
        given = kv_RX[:, here], bias_X[here], largest_stored_number(k_SRX.dtype), no_queries_RX, k_SRX[s], v_SRX[s]
        launch(add_and_cut, grid_of_rows(kv_RX[:, here]), THREADS, *given)
    return _as_heads(k_SRX, v_SRX, heads)


@rounding
def project_cross_kv_v2(h_RD, weight, heads, dtype=None, out=None):
    """Projects a source to keys and values of all layers, then cuts all of them in one launch.

    Behind the product, `arrange_layers` as (R, ceil(G(K+U) / 128), S) blocks of 128. Reads 8SRG(K+U) bytes and writes
    sSRG(K+U).
    """
    k_SRX, v_SRX, kv_RX, bias_X = _project_source(h_RD, weight, heads, dtype, out)
    _arrange(kv_RX, bias_X, k_SRX, v_SRX)
    return _as_heads(k_SRX, v_SRX, heads)


def _arrange(kv_RX, bias_X, k_SRX, v_SRX):
    (S, R, _), width = k_SRX.shape, k_SRX.shape[2] + v_SRX.shape[2]
    arrays = kv_RX, bias_X, largest_stored_number(k_SRX.dtype), k_SRX, v_SRX
    launch(arrange_layers, (R, -(-width // THREADS), S), THREADS, *arrays)


@cuda.jit
def arrange_layers(kv_RX, bias_X, largest, k_SRX, v_SRX):
    """Adds a bias to one number of layer s and stores it among its keys or values.

    Grid (R, ceil(G(K+U) / 128), S), block 128. A thread reads 8 bytes and writes s.
    """
    r, x, s = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x, cuda.blockIdx.z
    values, width = k_SRX.shape[2], k_SRX.shape[2] + v_SRX.shape[2]
    if x >= width:
        return
    number = cut_off(with_bias(kv_RX[r, s * width + x], bias_X, s * width + x), largest)
    if x < values:
        k_SRX[s, r, x] = number
    else:
        v_SRX[s, r, x - values] = number


@rounding
def project_cross_kv(h_RD, weight, heads, dtype=None, out=None):
    """Projects a source to keys and values of all layers, then cuts them four columns of four rows a thread.

    Version 3: `arrange_layers_in_fours` as (ceil(R / 4), ceil(G(K+U) / 512), S) blocks of 128. Reads 5SRG(K+U) bytes
    and writes sSRG(K+U). Version 2 where columns are no whole fours.
    """
    k_SRX, v_SRX, kv_RX, bias_X = _project_source(h_RD, weight, heads, dtype, out)
    if are_whole_fours(kv_RX, bias_X, k_SRX[0], v_SRX[0]):
        grid = *grid_of_fours(len(kv_RX), k_SRX.shape[2] + v_SRX.shape[2]), len(k_SRX)
        launch(arrange_layers_in_fours, grid, THREADS, kv_RX, bias_X, largest_stored_number(k_SRX.dtype), k_SRX, v_SRX)
    else:
        _arrange(kv_RX, bias_X, k_SRX, v_SRX)
    return _as_heads(k_SRX, v_SRX, heads)


@cuda.jit
def arrange_layers_in_fours(kv_RX, bias_X, largest, k_SRX, v_SRX):
    """Adds biases to four columns of four rows of layer s and stores them among its keys or values.

    Grid (ceil(R / 4), ceil(G(K+U) / 512), S), block 128. A thread reads 80 bytes and writes 16s.
    """
    kept = cuda.local.array(KEPT, float32)
    c, s, values = 4 * (cuda.blockIdx.y * THREADS + cuda.threadIdx.x), cuda.blockIdx.z, k_SRX.shape[2]
    width = values + v_SRX.shape[2]
    if c >= width:
        return
    load_fours(kept, kv_RX, bias_X, s * width + c, s * width + c)
    for i in range(KEPT):
        kept[i] = cut_off(kept[i], largest)
    if c < values:
        store_fours(k_SRX[s], c, kept)
    else:
        store_fours(v_SRX[s], c - values, kept)


def _project_source(h_RD, weight, heads, dtype, out):
    """(where keys go, where values go, the product of all layers, its bias); heads side by side."""
    k_SRGK, v_SRGU = result_arrays(h_RD, weight, heads, dtype, out)
    kv_RX = linear(h_RD, weight) if weight.x_bits is None else linear_int8(h_RD, weight)
    S, R, _, _ = k_SRGK.shape
    return k_SRGK.reshape(S, R, -1), v_SRGU.reshape(S, R, -1), kv_RX, or_empty(weight.bias, kv_RX[:, 0])


def _as_heads(k_SRX, v_SRX, heads):
    return tuple(a.reshape(*a.shape[:2], heads.G, -1) for a in (k_SRX, v_SRX))


# What each kernel is compiled and type-checked for, without a GPU.
_ARRANGED = [
    (float32[:, ::1], float32[::1], float32, *[layers_SRX] * 2)
    for layers_SRX in (float32[:, :, ::1], types.float16[:, :, ::1])
]
SIGNATURES = {arrange_layers: _ARRANGED, arrange_layers_in_fours: _ARRANGED}
REGISTERS = {arrange_layers_in_fours: 56}
