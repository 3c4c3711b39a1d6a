"""Skinny GEMMs (few rows), compiled for the CPU: the loops of skinny_gemm.py, on all threads.

Decoding multiplies 1 to 64 rows by large weights, and takes as long as reading them does. From two rows on BLAS first
copies the weights into an order of its own, which pays where many rows share the copy. Low-precision weights
(float16, int8) BLAS does not know at all. So skinny products are multiplied here, and many by BLAS.

What is few was measured by benchmarks/skinny_gemm.py, beside OpenBLAS: up to `FEW` rows these loops are faster than the
other way, and further on processors with 32 vector registers, where a tile's sums all find one. Float32 in the layout
"io" is near BLAS's own order: there one row is BLAS's, and from `FEW_OF_IO` rows on all are. So are float32 weights
under `SMALL`, whose copies stay in a cache.

A model that is loaded for this code (plan=fast) has its float32 weights in panels where the processor has AVX-512, and
panel_gemm.py multiplies any number of rows; elsewhere its weights lie in "oi" (common/packing.py).
"""

from __future__ import annotations

import functools
import platform

import numpy as np
from llvmlite import binding

from ..device.capture import capturable, contiguous_array, refuse_capture
from ..device.cores import worker_threads
from ..device.weight_blocks import is_in_blocks, pack_in_panels
from ..reference import linear as reference
from .common import block_gemm
from .common.code_paths import BLAS, BLAS_CAST, COMPILED, NUMPY, SUMS_MOVE, count_call
from .common.low_precision import cast_all, view_as_bits
from .common.panel_gemm import multiply_floats
from .common.skinny_gemm import multiply

MANY_REGISTERS = platform.machine() in ("arm64", "aarch64") or binding.get_host_cpu_features().get("avx512f", False)
FEW = {np.dtype(np.float32): 24, np.dtype(np.float16): 32, np.dtype(np.int8): 24}
if MANY_REGISTERS:
    FEW = {np.dtype(np.float32): 48, np.dtype(np.float16): 96, np.dtype(np.int8): 96}
FEW_OF_IO = 8
SMALL = 2**21  # bytes
WORTH_A_LOT = 2**20  # bytes of weights times rows, of which four take no longer than one: some 30 us


@capturable
def linear(x_RX, weight, add_to=None, out=None, *, workspace=None):
    """Few rows here, each sum ending in its scale; many by BLAS, low-precision weights cast piece by piece.

    Weights in panels, and those in blocks, are multiplied here, however many rows there are.
    """
    if x_RX.dtype == np.float32 and (weight.layout == "panels" or is_in_blocks(weight)):
        return _linear_panels(x_RX, weight, add_to, out)
    if is_in_blocks(weight):
        count_call(NUMPY)
        return reference.linear(x_RX, weight, add_to, out)
    if x_RX.dtype == np.float32 and _is_few(len(x_RX), weight):
        return linear_few_rows(x_RX, weight, add_to, out)
    if x_RX.dtype == weight.data.dtype:
        count_call(BLAS)
        return reference.linear(x_RX, weight, add_to, out)
    count_call(BLAS_CAST)
    y_RX = reference.product_by_blocks(x_RX, weight, out, cast_all, workspace)
    return y_RX if add_to is None else np.add(add_to, y_RX, out=add_to)


def _linear_panels(x_RX, weight, add_to=None, out=None):
    """The tiles of panel_gemm.py or block_gemm.py, for any number of rows; x is float32.

    Weights in blocks that were not packed when a model was loaded are packed now.
    """
    in_blocks = is_in_blocks(weight)
    weight = pack_in_panels(weight) if in_blocks and weight.layout == "oi" else weight
    y_RX, shape = out if add_to is None else add_to, (len(x_RX), weight.outputs)
    fits = _can_hold_sums(y_RX, shape, x_RX)
    sums_RX = y_RX if fits else np.empty(shape, np.float32)
    if sums_RX.size:
        count_call(block_gemm.KIND.name if in_blocks else COMPILED)
        tiles = block_gemm.multiply if in_blocks else multiply_floats
        tiles(contiguous_array(x_RX), weight, sums_RX, adds=fits and add_to is not None)
    if y_RX is None or fits:
        return sums_RX
    refuse_capture(SUMS_MOVE)
    y_RX[...] = sums_RX if add_to is None else y_RX + sums_RX
    return y_RX


def _can_hold_sums(y_RX, shape, x_RX):
    """Whether tiles may write their sums into y: contiguous float32, and nothing that later tiles read of x."""
    return (
        y_RX is not None and y_RX.shape == shape and y_RX.dtype == np.float32 and y_RX.flags.c_contiguous
        and not np.may_share_memory(y_RX, x_RX)
    )  # fmt: skip


def _is_few(rows, weight):
    if weight.data.dtype == np.float32 and weight.data.nbytes < SMALL:
        return False
    if weight.data.dtype == np.float32 and weight.layout == "io":
        return 2 <= rows <= FEW_OF_IO
    return rows <= FEW.get(weight.data.dtype, 0)


def linear_few_rows(x_RX, weight, add_to=None, out=None):
    """The loops of skinny_gemm.py for any number of rows; x is float32. Each task of a worker is a range of outputs."""
    if is_in_blocks(weight):
        return _linear_panels(x_RX, weight, add_to, out)
    data = np.ascontiguousarray(view_as_bits(weight.data))
    shape = len(x_RX), data.shape[0 if weight.layout == "oi" else 1]
    scale_X = _no_scale(shape[1]) if weight.scale is None else np.ascontiguousarray(weight.scale, np.float32)
    fits = _can_hold_sums(out, shape, x_RX)
    y_RX = out if fits else np.empty(shape, np.float32)
    if y_RX.size:
        per_task = _outputs_per_task(weight.layout, data.nbytes, *shape)
        count_call(COMPILED)
        multiply(contiguous_array(x_RX, np.float32), data, scale_X, weight.layout == "oi", y_RX, per_task)
    if out is not None and not fits:
        refuse_capture(SUMS_MOVE)
        out[...] = y_RX
        y_RX = out
    if add_to is None:
        return y_RX
    refuse_capture(SUMS_MOVE)
    return np.add(add_to, y_RX, out=add_to)


def _outputs_per_task(layout, size, rows, outputs):
    """Outputs in a task; 0 if the product is too small for two. In "io" they are many: an input's lie side by side."""
    tasks = size * max(rows, 4) // WORTH_A_LOT
    if tasks < 2:
        return 0
    return -(-outputs // tasks // 6) * 6 if layout == "oi" else -(-outputs // worker_threads().number)


@functools.lru_cache(maxsize=64)
def _no_scale(outputs):
    ones_X = np.ones(outputs, np.float32)
    ones_X.flags.writeable = False  # as all weights are: code is compiled for one kind alone
    return ones_X
