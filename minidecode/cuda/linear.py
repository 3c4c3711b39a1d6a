"""Skinny GEMMs (few rows), with weights of float32, float16, int8 or blocks of int8 and int4.

1. A thread per result, the loop of the CPU. Every row reads all weights for itself; and in the layout "oi", where an
   output's weights lie side by side, neighbouring threads read addresses a whole output apart.
2. Neighbouring lanes read neighbouring weights, and what is read serves ROWS rows. In "oi" a warp has an output, and
   adds up by shuffles; in "io", where the weights of an input lie side by side, its lanes have 32 outputs, and the
   warps of a block share the inputs and add up in shared memory.
3. The same with 128-bit loads in "oi": four float32, eight float16 or sixteen int8 at once. Fewer instructions ask for
   the same bytes, so that more of them are on their way at a time. Rows must begin at multiples of 16 bytes. Weights in
   blocks begin here: a load is a block of int4 or half of one of int8.
   On an H100: 14 % of a copy's bandwidth (4 rows, float16, 1 GB). Its loops ask for each row whether it is there.
4. Kernels with constants (common/skinny_gemm.py): all weights of several steps are loaded before the first product, and
   what is read of x serves 8 outputs and more. Weights of fewer bits than float32 go to tensor cores, 8 or 16 rows at a
   time. Floor: the bytes of the weights by the bandwidth, and about 2.6 us a launch in a graph. Predicted 80 % of a
   copy's bandwidth on 1 GB. Measured (H100, 2026-11-26, before 64-bit divisions went and tiles of many outputs came)
   with the best constants for 1, 4 and 8 rows: float16 93, 91 and 90 %; float32 102, 100 and 95 %; int8 74, 71 and
   69 %; int8_blocks 57, 56 and 54 %; int4 41, 39 and 37 %. In a graph with the true shapes of GPT-2, one row: float16
   31 %, float32 53 %, int8 17 %, int4 8 %. Since then not measured.
5. Of int8 and blocks with many outputs, as a vocabulary has: weights are the larger side of the tensor cores' products,
   so that one of them does twice as much; 16 bytes of int4 are one load instead of four, and take 70 instructions
   instead of 153; x is rounded once for a warp, in shared memory. Predicted on 1 GB for 1, 4 and 8 rows, in % of a copy
   (version 4): int8 78, 72, 67 (70, 64, 56); int8_blocks 65, 64, 57 (54, 51, 47); int4 65, 53, 37 (41, 35, 31). GPT-2's
   last product with int4, one row: 12.0 us (18.9). Not measured. In both versions, but for float32, scales and
   biases are read before the main loop: behind it, a launch waited for them, 0.6 us where they come from memory
   (reasoned).

With weights of fewer bits than float32, x is rounded to float16 at every product, whatever the number of rows, with a
power of two for a row beyond float16's range (`round_rows_to_float16` in device/low_precision.py). Sums are float32.
They end in a register: in the output's scale, and for cuda/epilogue.py in bias, activation and residual.

Many rows are the library's: float16 by float16 on tensor cores. Of int8 and of blocks some outputs at a time are cast
to float16, TILE numbers, which stay in the L2 cache, and multiplied. int8 is exact as float16. A number of a block has
up to 19 bits, and is the sum of two float16: its rounding and what that left. Both are multiplied, exactly too. So no
weight is ever rounded, and none is widened in memory.
Predicted for an H100, not measured, 128 rows by 1,024 x 4,096 of int8_blocks: two tiles of a cast (4.3 MB read, 8 MB
written to L2) and two products, about 3 us each, 18 us, and 4 more for rounding rows and ending sums. Version 4 reads 4
MB of weights 8 times and 0.5 MB of x 256 times from L2 at 5.5 TB/s, 30 us. For 80 rows it takes 19 so, and at the rate
of 8 rows on 1 GB (1.3 TB/s) 17 for five times 16 rows: about as long as the library.
"""

from __future__ import annotations

import functools

import numpy as np
from numba import boolean, cuda, float32, int8, int32, int64, uint8
from numba.core.types import float16

from ..device.arrays import address_of
from ..device.launch import launch
from ..device.library_rows import measured_library_rows
from ..device.low_precision import BEYOND_HALF, is_narrow, rounding, unpack_panels
from ..device.matmul import matmul
from ..device.weight_blocks import BLOCK, is_in_blocks
from ..errors import OptionError
from ..reference import empty, scratch
from ..reference.activation import activation_code
from .common.arrays import filled_scratch
from .common.reduction import THREADS, WARPS, block_max, warp_max, warp_sum
from .common.skinny_gemm import (
    BEYOND,
    FLOAT16,
    INFINITE,
    INT4,
    INT8,
    INT8_BLOCKS,
    MOST_FINITE,
    add_bias_and_write,
    make_few_bits_kernel,
    make_float32_kernel,
    make_tensor_core_kernel,
)
from .common.tensor_core import (
    floats_of_halves,
    four_words,
    halves_of_bytes,
    load_four_floats,
    pack_halves,
    store_four_words,
)
from .common.vector_load import has_aligned_rows, wide_load

ROWS = 8  # that one read of a weight serves in versions 2 and 3; their sums stay in registers
LANES = 32
LOAD = 16  # bytes of a wide load
# The number of rows from which the library is faster, by how weights are stored: an H100's, predicted, for a GPU that
# has no table of its own (device/library_rows.py).
LIBRARY_FROM = {"float32": 17, "float16": 17, "int8": 49, "int8_blocks": 81, "int4": 81}
TILE = 2**22  # numbers of float16 that weights are cast to at a time: 8 MiB
LEAST_OUTPUTS = 128  # of a tile: as many as a block of the library's has
BEYOND_FLOAT16, LARGE_SCALE = float32(BEYOND_HALF), float32(256)  # times 128: beyond 32,767
LEAST_BLOCKS = 528  # of a launch whose warps have many outputs: 4 for each multiprocessor of an H100
LEAST_BLOCKS_OF_5 = 256  # of a launch of version 5; with fewer, version 4 is predicted to be faster
ENOUGH_WARPS = 2112  # of a launch: 16 for each multiprocessor of an H100. With fewer, several share an output's inputs


@rounding
def linear_v1(x_RX, weight, add_to=None, out=None, *, bias_X=None, activation=None):
    """y_RX = x_RX W, a thread per result; the matrix of "io" is handed over transposed, as a view.

    Launches `thread_per_result` in ceil(RO / 128) blocks of 128, for O outputs of I inputs. Reads (4 + s)ROI bytes and
    writes 4RO; s: bytes of a weight. Weights in blocks take the kernel of version 3.
    """
    if is_in_blocks(weight):
        return _multiply_blocks(x_RX, weight, add_to, out, bias_X, activation)
    x_RX = _round_inputs(x_RX, weight)
    w_XX = weight.data if weight.layout == "oi" else weight.data.T
    results = len(x_RX) * len(w_XX)
    return _launch(
        thread_per_result, -(-results // THREADS), x_RX, w_XX, len(w_XX), weight, add_to, out, bias_X, activation
    )


@cuda.jit
def thread_per_result(x_RX, w_XX, scale_X, bias_X, biased, code, adds, y_RX):
    """Sums one result over all inputs, and ends it.

    Grid ceil(RO / 128), block 128. A thread reads (4 + s)I bytes and writes 4.
    """
    n, outputs = cuda.grid(1), y_RX.shape[1]
    if n >= y_RX.size:
        return
    r, o = n // outputs, n % outputs
    total = float32(0)
    for i in range(x_RX.shape[1]):
        total += x_RX[r, i] * float32(w_XX[o, i])
    end_sum(total, r, o, scale_X, bias_X, biased, code, adds, y_RX)


@cuda.jit(device=True)
def end_sum(total, r, o, scale_X, bias_X, biased, code, adds, y_RX):
    """What becomes of a sum: times its scale, plus its bias, activated, and added to what is there, or written."""
    add_bias_and_write(scale_X[o] * total, r, o, bias_X, biased, code, adds, y_RX)


@rounding
def linear_v2(x_RX, weight, add_to=None, out=None, *, bias_X=None, activation=None, workspace=None):
    """y_RX = x_RX W, each weight read once for 8 rows, by neighbouring lanes.

    Launches `warp_per_output` as (ceil(O / 4), ceil(R / 8)) blocks for "oi", `block_per_lot_of_outputs` as (ceil(O /
    32), ceil(R / 8)) for "io", of 128. Reads sOI ceil(R / 8) bytes of weights and 4ROI of x; writes 4RO.
    """
    if is_in_blocks(weight):
        return _multiply_blocks(x_RX, weight, add_to, out, bias_X, activation, workspace)
    x_RX = _round_inputs(x_RX, weight, workspace)
    if weight.layout == "io":
        outputs = weight.data.shape[1]
        grid, kernel = (-(-outputs // LANES), -(-len(x_RX) // ROWS)), block_per_lot_of_outputs
    else:
        outputs = len(weight.data)
        grid, kernel = (-(-outputs // WARPS), -(-len(x_RX) // ROWS)), warp_per_output
    return _launch(kernel, grid, x_RX, weight.data, outputs, weight, add_to, out, bias_X, activation, workspace)


@cuda.jit
def warp_per_output(x_RX, w_XX, scale_X, bias_X, biased, code, adds, y_RX):
    """Sums one output of up to 8 rows: lane l has every 32nd input from l on.

    Grid (ceil(O / 4), ceil(R / 8)), block 128. A warp reads sI bytes of weights and 4I a row, and writes 4 a row.
    """
    first, lane = cuda.blockIdx.y * ROWS, cuda.threadIdx.x % 32
    o = cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32
    if o >= y_RX.shape[1]:
        return
    sums = cuda.local.array(ROWS, float32)
    for k in range(ROWS):
        sums[k] = float32(0)
    for i in range(lane, x_RX.shape[1], 32):
        w = float32(w_XX[o, i])
        for k in range(ROWS):
            if first + k < x_RX.shape[0]:
                sums[k] += w * x_RX[first + k, i]
    end_sums_of_warp(sums, first, o, lane, scale_X, bias_X, biased, code, adds, y_RX)


@cuda.jit(device=True)
def end_sums_of_warp(sums, first, o, lane, scale_X, bias_X, biased, code, adds, y_RX):
    """What all lanes have found, for each of the rows from `first` on: a lane for each row ends it, all at once."""
    mine = float32(0)
    for k in range(ROWS):
        if first + k < y_RX.shape[0]:  # the same for all lanes; one row is five shuffles, and not forty
            total = warp_sum(sums[k])
            if lane == k:
                mine = total
    if lane < ROWS and first + lane < y_RX.shape[0]:
        end_sum(mine, first + lane, o, scale_X, bias_X, biased, code, adds, y_RX)


@cuda.jit
def block_per_lot_of_outputs(x_RX, w_XX, scale_X, bias_X, biased, code, adds, y_RX):
    """Sums 32 outputs of up to 8 rows: warp w has every fourth input from w on, and all add up in shared memory.

    Grid (ceil(O / 32), ceil(R / 8)), block 128. A block reads 32sI bytes of weights and 128I a row, the same x for all
    lanes of a warp; it writes 128 a row.
    """
    part = cuda.shared.array((WARPS, ROWS, LANES), float32)
    first, lane, warp = cuda.blockIdx.y * ROWS, cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    o = cuda.blockIdx.x * LANES + lane
    sums = cuda.local.array(ROWS, float32)
    for k in range(ROWS):
        sums[k] = float32(0)
    if o < y_RX.shape[1]:
        for i in range(warp, x_RX.shape[1], WARPS):
            w = float32(w_XX[i, o])
            for k in range(ROWS):
                if first + k < x_RX.shape[0]:
                    sums[k] += w * x_RX[first + k, i]
    for k in range(ROWS):
        part[warp, k, lane] = sums[k]
    cuda.syncthreads()
    for k in range(warp, ROWS, WARPS):
        if o < y_RX.shape[1] and first + k < y_RX.shape[0]:
            total = float32(0)
            for other in range(WARPS):
                total += part[other, k, lane]
            end_sum(total, first + k, o, scale_X, bias_X, biased, code, adds, y_RX)


@rounding
def linear_v3(x_RX, weight, add_to=None, out=None, *, bias_X=None, activation=None, workspace=None):
    """y_RX = x_RX W with weights in "oi", by 128-bit loads.

    Launches `warp_per_output_wide` as (ceil(O / 4), ceil(R / 8)) blocks of 128. Reads and writes what version 2 does.
    Version 2 in the layout "io", and where rows are no whole number of 16 bytes, or begin elsewhere.
    """
    if is_in_blocks(weight):
        return _multiply_blocks(x_RX, weight, add_to, out, bias_X, activation, workspace)
    if weight.layout == "io" or not _can_load_wide(x_RX, weight):
        return linear_v2(x_RX, weight, add_to, out, bias_X=bias_X, activation=activation, workspace=workspace)
    x_RX, outputs = _round_inputs(x_RX, weight, workspace), len(weight.data)
    grid, ends_in = (-(-outputs // WARPS), -(-len(x_RX) // ROWS)), (bias_X, activation)
    return _launch(warp_per_output_wide, grid, x_RX, weight.data, outputs, weight, add_to, out, *ends_in, workspace)


def _can_load_wide(x_RX, weight):
    """Whether x and the weights of each output are whole numbers of 16 bytes, and begin at multiples of 16."""
    is_whole = x_RX.shape[1] % (LOAD // weight.data.itemsize) == 0
    return is_whole and has_aligned_rows(x_RX) and has_aligned_rows(weight.data)


@cuda.jit
def warp_per_output_wide(x_RX, w_XX, scale_X, bias_X, biased, code, adds, y_RX):
    """Sums one output of up to 8 rows, 16 bytes of weights a lane at a time.

    Grid (ceil(O / 4), ceil(R / 8)), block 128. A warp reads sI bytes of weights and 4I a row, and writes 4 a row.
    """
    first, lane = cuda.blockIdx.y * ROWS, cuda.threadIdx.x % 32
    o = cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32
    if o >= y_RX.shape[1]:
        return
    sums = cuda.local.array(ROWS, float32)
    for k in range(ROWS):
        sums[k] = float32(0)
    together = 16 // w_XX.itemsize
    for i in range(together * lane, x_RX.shape[1], together * 32):
        w = wide_load(w_XX[o], i)
        for k in range(ROWS):
            if first + k < x_RX.shape[0]:
                for four in range(0, together, 4):
                    x = wide_load(x_RX[first + k], i + four)
                    for j in range(4):
                        sums[k] += w[four + j] * x[j]
    end_sums_of_warp(sums, first, o, lane, scale_X, bias_X, biased, code, adds, y_RX)


def _multiply_blocks(x_RX, weight, add_to=None, out=None, bias_X=None, activation=None, workspace=None):
    """Few rows and weights in blocks; many take their time, for each ROWS of them read all weights."""
    weight, outputs = unpack_panels(weight), weight.outputs
    _refuse_other_types(x_RX, weight.data)
    x_RX = _round_inputs(x_RX, weight, workspace)
    grid = -(-outputs // WARPS), -(-len(x_RX) // ROWS)
    y_RX = out if add_to is None else add_to
    y_RX = empty(x_RX, (len(x_RX), outputs)) if y_RX is None else y_RX
    biased, ones_X = bias_X is not None, filled_scratch(workspace, outputs, x_RX, 1)  # sums have had their scales
    ends_in = ones_X, bias_X if biased else ones_X, biased, activation_code(activation), add_to is not None
    arrays = _align_rows(x_RX), _align_rows(weight.data), weight.scale
    launch(warp_per_output_blocks, grid, THREADS, *arrays, *ends_in, y_RX)
    return y_RX


def _align_rows(array_XX):
    """The array, or a copy whose rows begin where wide loads can."""
    if has_aligned_rows(array_XX):
        return array_XX
    copy_XX = np.empty_like(array_XX, order="C")
    copy_XX[...] = array_XX
    return copy_XX


@cuda.jit
def warp_per_output_blocks(x_RX, w_XX, scale_XX, scale_X, bias_X, biased, code, adds, y_RX):
    """Sums one output of up to 8 rows from weights in blocks, each block's products times its scale.

    Grid (ceil(O / 4), ceil(R / 8)), block 128. A warp reads the output's blocks with their scales and 4I bytes a row,
    and writes 4 a row.
    """
    first, lane = cuda.blockIdx.y * ROWS, cuda.threadIdx.x % 32
    o = cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32
    if o >= y_RX.shape[1]:
        return
    sums = cuda.local.array(ROWS, float32)
    for k in range(ROWS):
        sums[k] = float32(0)
    for place in range(LOAD * lane, w_XX.shape[1], LOAD * 32):
        w = wide_load(w_XX[o], place)
        i = place // LOAD * len(w)
        scale = float32(scale_XX[o, i // BLOCK])
        for k in range(ROWS):
            if first + k < x_RX.shape[0]:
                part = float32(0)
                for four in range(0, len(w), 4):
                    x = wide_load(x_RX[first + k], i + four)
                    for j in range(4):
                        part += w[four + j] * x[j]
                sums[k] += scale * part
    end_sums_of_warp(sums, first, o, lane, scale_X, bias_X, biased, code, adds, y_RX)


@cuda.jit
def cast_int8_to_float16(w_XX, w16_XX):
    """Casts 16 int8 to float16, exactly.

    Grid ceil(loads / 128), block 128. A thread reads 16 bytes and writes 32.
    """
    n, loads = cuda.grid(1), w_XX.shape[1] // LOAD
    if n >= w_XX.shape[0] * loads:
        return
    o, i = n // loads, n % loads * LOAD
    words = four_words(w_XX, o, i)
    a, b = halves_of_bytes(words[0])
    c, d = halves_of_bytes(words[1])
    store_four_words(w16_XX, o, i, a, b, c, d)
    a, b = halves_of_bytes(words[2])
    c, d = halves_of_bytes(words[3])
    store_four_words(w16_XX, o, i + 8, a, b, c, d)


@cuda.jit
def split_blocks(w_XX, scale_XX, high_XX, low_XX, power_X):
    """Casts an output of blocks to two float16 a number, whose sum times the output's power of two is that number.

    A number is a multiple of 2^-24, as float16 scales are, and so is what its rounding leaves: float16 holds that. The
    power is 1 unless a scale is 256 or more.
    Grid ceil(O / 4), block 128. A warp reads the output's blocks and 2 bytes a block, twice, and writes 4I + 4.
    """
    lane, o = cuda.threadIdx.x % 32, cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32
    if o >= w_XX.shape[0]:
        return
    most, power = float32(0), float32(1)
    for block in range(lane, scale_XX.shape[1], 32):
        most = max(most, abs(float32(scale_XX[o, block])))
    most = warp_max(most)
    while most >= LARGE_SCALE * power and power < LARGE_SCALE:
        power *= float32(2)
    inverse = float32(1) / power
    for place in range(LOAD * lane, w_XX.shape[1], LOAD * 32):
        w = wide_load(w_XX[o], place)
        i = place // LOAD * len(w)
        scale = float32(scale_XX[o, i // BLOCK]) * inverse
        for eight in range(0, len(w), 8):
            a, e = split_into_two_halves(scale * w[eight], scale * w[eight + 1])
            b, f = split_into_two_halves(scale * w[eight + 2], scale * w[eight + 3])
            c, g = split_into_two_halves(scale * w[eight + 4], scale * w[eight + 5])
            d, h = split_into_two_halves(scale * w[eight + 6], scale * w[eight + 7])
            store_four_words(high_XX, o, i + eight, a, b, c, d)
            store_four_words(low_XX, o, i + eight, e, f, g, h)
    if lane == 0:
        power_X[o] = power


@cuda.jit(device=True)
def split_into_two_halves(first, second):
    """Two numbers rounded to float16, as a word, and a word of what that left."""
    word = pack_halves(first, second)
    rounded = floats_of_halves(word)
    return word, pack_halves(first - rounded[0], second - rounded[1])


def _launch(kernel, grid, x_RX, w_XX, outputs, weight, add_to, out, bias_X, activation, workspace=None):
    _refuse_other_types(x_RX, w_XX)
    y_RX = out if add_to is None else add_to
    y_RX = empty(x_RX, (len(x_RX), outputs)) if y_RX is None else y_RX
    scale_X = filled_scratch(workspace, outputs, x_RX, 1) if weight.scale is None else weight.scale
    biased = bias_X is not None  # without, nothing reads what stands in its place
    ends_in = scale_X, bias_X if biased else scale_X, biased, activation_code(activation), add_to is not None
    launch(kernel, grid, THREADS, x_RX, w_XX, *ends_in, y_RX)
    return y_RX


def _refuse_other_types(x_RX, w_XX):
    if x_RX.dtype != np.float32 or w_XX.dtype not in (np.float32, np.float16, np.int8, np.uint8):
        raise OptionError(
            f"the kernels of cuda/linear.py multiply float32 by float32, float16 or int8, not {x_RX.dtype} by"
            f" {w_XX.dtype}: the reference takes float64 too"
        )


@rounding
def linear_v4(x_RX, weight, add_to=None, out=None, *, bias_X=None, activation=None, workspace=None):
    """y_RX = x_RX W by kernels made with constants, which load all weights of several steps before a product.

    Version 4 (`launch_few_rows`): reads the weights once for as many rows as a kernel serves, and writes 4RO bytes.
    Version 3 in the layout "io", and where rows are no whole number of 16 bytes, or begin elsewhere.
    """
    ends_in = bias_X, activation, workspace
    return multiply_by_kernels(x_RX, weight, add_to, out, *ends_in, newest=4)


@rounding
def linear(x_RX, weight, add_to=None, out=None, *, bias_X=None, activation=None, workspace=None):
    """y_RX = x_RX W, few rows by kernels made with constants, many by the library.

    Versions 4 and 5 (`launch_few_rows`): read weights once for as many rows as a kernel serves, and write 4RO bytes.
    Version 3 in the layout "io", and where rows are no whole number of 16 bytes, or begin elsewhere.
    """
    _refuse_other_types(x_RX, weight.data)
    by = multiply_by_library if len(x_RX) >= rows_for_library(name_of_storage(weight), x_RX) else multiply_by_kernels
    return by(x_RX, weight, add_to, out, bias_X, activation, workspace)


def rows_for_library(stored, x_RX):
    """The number of rows from which the library is faster where x lies: as measured on that GPU, if it was."""
    measured = measured_library_rows() if type(x_RX).__module__ == "cupy" else {}
    return measured.get(stored) or LIBRARY_FROM[stored]


def multiply_by_kernels(x_RX, weight, add_to=None, out=None, bias_X=None, activation=None, workspace=None, newest=5):
    """Version 4 or 5, or version 3 where rows do not lie as they want them."""
    _refuse_other_types(x_RX, weight.data)
    stored = name_of_storage(weight)
    if is_in_blocks(weight):
        weight, x_RX = unpack_panels(weight), _align_rows(x_RX)
        is_wide = has_aligned_rows(weight.data) and address_of(weight.scale) % 8 == 0
    else:
        is_wide = weight.layout == "oi" and has_aligned_rows(x_RX) and has_aligned_rows(weight.data)
    made = choose_kernel(stored, len(x_RX), weight.outputs, newest)
    if not is_wide or x_RX.shape[1] % made.multiple:
        return linear_v3(x_RX, weight, add_to, out, bias_X=bias_X, activation=activation, workspace=workspace)
    return launch_few_rows(made, x_RX, weight, add_to, out, bias_X, activation)


def name_of_storage(weight):
    """How its numbers are stored, as LIBRARY_FROM and FEW_ROWS name it."""
    if is_in_blocks(weight):
        return "int4" if weight.data.dtype == np.uint8 else "int8_blocks"
    return weight.data.dtype.name


def choose_kernel(stored, rows, outputs, newest=5):
    """The smallest kernel for this many rows; one whose warps have many outputs, if it still has enough blocks."""
    made = FEW_ROWS[stored]
    for m in FEW_BITS.get(stored, ()) if newest == 5 else ():
        if m.rows >= rows and outputs >= LEAST_BLOCKS_OF_5 * m.outputs:
            return m
    served = min((m.rows for m in made if m.rows >= rows), default=made[-1].rows)
    fitting = [m for m in made if m.rows == served]
    return next((m for m in fitting if outputs >= LEAST_BLOCKS * m.outputs), fitting[-1])


def launch_few_rows(made, x_RX, weight, add_to=None, out=None, bias_X=None, activation=None):
    """Launches a kernel made with constants, with as many warps to a block as fill a large GPU.

    Grid (ceil(O / made.outputs), ceil(R / made.rows)), block 32 to 32 * made.warps. Reads the weights ceil(R /
    made.rows) times and 4RI bytes of x for each block of outputs; writes 4RO.
    """
    (R, inputs), outputs = x_RX.shape, weight.outputs
    y_RX = out if add_to is None else add_to
    y_RX = empty(x_RX, (R, outputs)) if y_RX is None else y_RX
    grid = -(-outputs // made.outputs), -(-R // made.rows)
    if not R:
        return y_RX
    loads = -(-inputs // made.inputs)  # of a warp that has an output for itself
    turns = -(-loads // min(made.warps, -(-ENOUGH_WARPS // (grid[0] * grid[1]))))
    warps = -(-loads // turns)
    unread_X = x_RX[0]  # what stands for a bias or a scale that there is not
    scale = () if weight.data.dtype == np.float32 else (unread_X if weight.scale is None else weight.scale,)
    ends_in = (
        unread_X if bias_X is None else bias_X,
        bias_X is not None,
        activation_code(activation),
        add_to is not None,
    )
    launch(made.kernel, grid, LANES * warps, x_RX, weight.data, *scale, *ends_in, y_RX)
    return y_RX


def multiply_by_library(x_RX, weight, add_to=None, out=None, bias_X=None, activation=None, workspace=None):
    """A product of the library, and a kernel behind it for what it cannot do."""
    _refuse_other_types(x_RX, weight.data)
    weight = unpack_panels(weight)
    scale_R, scale_X, outputs = None, weight.scale, weight.outputs
    if is_narrow(weight):
        x_RX, scale_R = round_rows_to_halves(x_RX, workspace)
    y_RX = empty(x_RX, (len(x_RX), outputs), np.float32) if out is None and add_to is None else out
    sums_RX = scratch(workspace, (len(x_RX), outputs), x_RX, np.float32) if y_RX is None else y_RX
    if is_in_blocks(weight):
        scale_X = _multiply_cast_blocks(x_RX, weight, sums_RX, workspace)
    elif weight.data.dtype == np.int8:
        _multiply_bytes(x_RX, weight, sums_RX, workspace)
    else:
        matmul([(x_RX, weight.data if weight.layout == "io" else weight.data.T, sums_RX)])
    if scale_R is None and scale_X is bias_X is activation is add_to is None:
        return sums_RX
    if scale_X is bias_X is activation is add_to is None:
        launch(scale_rows, len(sums_RX), THREADS, sums_RX, scale_R)
        return sums_RX
    y_RX = sums_RX if add_to is None else add_to
    unread_X = sums_RX[0]
    scales = (unread_X if scale_R is None else scale_R, scale_R is not None)
    scales += (unread_X if scale_X is None else scale_X, scale_X is not None)
    ends_in = (
        unread_X if bias_X is None else bias_X,
        bias_X is not None,
        activation_code(activation),
        add_to is not None,
    )
    launch(end_sums, -(-sums_RX.size // THREADS), THREADS, sums_RX, *scales, *ends_in, y_RX)
    return y_RX


def _multiply_bytes(x16_RX, weight, sums_RX, workspace=None):
    """Sums of products with int8 before their scales, some outputs at a time."""
    inputs, is_io = x16_RX.shape[1], weight.layout == "io"
    together = outputs_cast_together(weight.outputs, inputs)
    w16_X = scratch(workspace, (together * inputs,), x16_RX)
    for first in range(0, weight.outputs, together):
        here = slice(first, first + together)
        some_XX = weight.data[:, here] if is_io else weight.data[here]
        w16_XX = w16_X[: some_XX.size].reshape(some_XX.shape)
        if not is_io and inputs % LOAD == 0 and has_aligned_rows(some_XX) and has_aligned_rows(w16_XX):
            launch(cast_int8_to_float16, -(-some_XX.size // LOAD // THREADS), THREADS, some_XX, w16_XX)
        else:
            w16_XX[...] = some_XX
        matmul([(x16_RX, w16_XX if is_io else w16_XX.T, sums_RX[:, here])])


def _multiply_cast_blocks(x16_RX, weight, sums_RX, workspace=None):
    """Sums of products with blocks, some outputs at a time; returns what each output is still to be scaled by."""
    inputs, outputs = x16_RX.shape[1], weight.outputs
    together = outputs_cast_together(outputs, 2 * inputs)
    both_X = scratch(workspace, (2 * together * inputs,), x16_RX)
    power_X = scratch(workspace, (outputs,), sums_RX)
    w_XX, scale_XX = _align_rows(weight.data), weight.scale
    scale_XX = scale_XX if scale_XX.flags.c_contiguous else scale_XX.copy()
    for first in range(0, outputs, together):
        here = slice(first, min(first + together, outputs))
        high_XX, low_XX = both_X[: 2 * (here.stop - first) * inputs].reshape(2, -1, inputs)
        arrays = w_XX[here], scale_XX[here], high_XX, low_XX, power_X[here]
        launch(split_blocks, -(-(here.stop - first) // WARPS), THREADS, *arrays)
        matmul([(x16_RX, high_XX.T, sums_RX[:, here])])
        matmul([(x16_RX, low_XX.T, sums_RX[:, here])], adds=True)
    return power_X


def outputs_cast_together(outputs, numbers):
    """How many outputs are cast to float16 at a time, each to this many numbers: tiles of one size, within TILE."""
    most = max(TILE // max(numbers, 1) // LEAST_OUTPUTS, 1) * LEAST_OUTPUTS
    tiles = max(-(-outputs // most), 1)
    return min(-(-outputs // tiles // LEAST_OUTPUTS) * LEAST_OUTPUTS, outputs)


def round_rows_to_halves(x_RX, workspace=None):
    """(x as float16, scale_R): row r stands for scale_R[r] times its halves."""
    x16_RX, scale_R = scratch(workspace, x_RX.shape, x_RX, np.float16), scratch(workspace, (len(x_RX),), x_RX)
    is_wide = x_RX.shape[1] % 8 == 0 and has_aligned_rows(x_RX) and has_aligned_rows(x16_RX)
    launch(round_rows if is_wide else round_unaligned_rows, len(x_RX), THREADS, x_RX, x16_RX, scale_R)
    return x16_RX, scale_R


def _round_inputs(x_RX, weight, workspace=None):
    """x as versions 1 to 3 multiply it: as float32, rounded to float16 if the weights have fewer bits than float32."""
    if not is_narrow(weight) or x_RX.dtype != np.float32:
        return x_RX
    return _cast_halves_back(*round_rows_to_halves(x_RX, workspace), workspace)


def _cast_halves_back(x16_RX, scale_R, workspace=None):
    """What rows of halves stand for, as float32."""
    x_RX = scratch(workspace, x16_RX.shape, scale_R)
    x_RX[...] = x16_RX
    launch(scale_rows, len(x_RX), THREADS, x_RX, scale_R)
    return x_RX


@cuda.jit
def round_rows(x_RX, x16_RX, scale_R):
    """Rounds a row to float16, eight numbers a thread, and nearly never has to read it again.

    Grid R, block 128. Reads 4X bytes a row, 8X more if float16 cannot hold it, and writes 2X + 4.
    """
    r, t, is_beyond = cuda.blockIdx.x, cuda.threadIdx.x, int32(0)
    for i in range(8 * t, x_RX.shape[1], 8 * THREADS):
        a, b, c, d = load_four_floats(x_RX, r, i)
        e, f, g, h = load_four_floats(x_RX, r, i + 4)
        store_four_words(x16_RX, r, i, pack_halves(a, b), pack_halves(c, d), pack_halves(e, f), pack_halves(g, h))
        if max(abs(a), abs(b), abs(c), abs(d), abs(e), abs(f), abs(g), abs(h)) >= BEYOND_FLOAT16:
            is_beyond = int32(1)
    if cuda.syncthreads_or(is_beyond):
        round_row(x_RX, x16_RX, scale_R, r, t)
    elif t == 0:
        scale_R[r] = float32(1)


@cuda.jit
def round_unaligned_rows(x_RX, x16_RX, scale_R):
    """Rounds a row to float16 number by number: no whole number of 16 bytes, or one that begins elsewhere.

    Grid R, block 128. Reads 8X bytes a row, and writes 2X + 4.
    """
    round_row(x_RX, x16_RX, scale_R, cuda.blockIdx.x, cuda.threadIdx.x)


@cuda.jit(device=True)
def round_row(x_RX, x16_RX, scale_R, r, t):
    """Scales a row by the smallest power of two that brings it below 32,768, if float16 cannot hold it."""
    part = cuda.shared.array(WARPS, float32)
    most = float32(0)
    for i in range(t, x_RX.shape[1], THREADS):
        size = abs(x_RX[r, i])
        if not size <= MOST_FINITE:
            size = INFINITE
        if size > most:
            most = size
    most = block_max(most, part)
    power = float32(1)
    if most >= BEYOND_FLOAT16 and most < INFINITE:
        while most >= BEYOND * power:
            power *= float32(2)
    inverse = float32(1) / power
    for i in range(t, x_RX.shape[1], THREADS):
        x16_RX[r, i] = float16(x_RX[r, i] * inverse)
    if t == 0:
        scale_R[r] = power


@cuda.jit
def scale_rows(y_RX, scale_R):
    """Scales a row, unless its scale is 1, as it nearly always is.

    Grid R, block 128. Reads 4 bytes a row, and reads and writes 4O more of one that is scaled.
    """
    r = cuda.blockIdx.x
    scale = scale_R[r]
    if scale == float32(1):
        return
    for o in range(cuda.threadIdx.x, y_RX.shape[1], THREADS):
        y_RX[r, o] *= scale


@cuda.jit
def end_sums(sums_RX, scale_R, by_row, scale_X, by_output, bias_X, biased, code, adds, y_RX):
    """Ends one sum of the library's, as the kernels of few rows do in a register.

    Grid ceil(RO / 128), block 128. A thread reads 4 bytes, and 4 for each of scales, bias and what it adds to; it
    writes 4.
    """
    n, outputs = cuda.grid(1), y_RX.shape[1]
    if n >= y_RX.size:
        return
    r, o = n // outputs, n % outputs
    total = sums_RX[r, o]
    if by_row:
        total *= scale_R[r]
    if by_output:
        total *= scale_X[o]
    add_bias_and_write(total, r, o, bias_X, biased, code, adds, y_RX)


# What each kernel is compiled and type-checked for, without a GPU.
STORED = (float32, float16, int8)
ROWS_OF, ROW = float32[:, ::1], float32[::1]
ENDS_IN = (ROW, ROW, boolean, int64, boolean, ROWS_OF)
SIGNATURES = {
    kernel: [(ROWS_OF, stored[:, ::1], *ENDS_IN) for stored in STORED]
    for kernel in (thread_per_result, warp_per_output, block_per_lot_of_outputs, warp_per_output_wide)
}
SIGNATURES[thread_per_result] += [(ROWS_OF, stored[::1, :], *ENDS_IN) for stored in STORED]
COLUMNS_OF = float32[:, :]  # of a wider array
for _kernel in (thread_per_result, warp_per_output):
    SIGNATURES[_kernel] += [(COLUMNS_OF, stored[:, :], *ENDS_IN) for stored in STORED]
HALVES_OF = float16[:, ::1]
IN_BLOCKS = [(stored[:, ::1], HALVES_OF) for stored in (int8, uint8)]
SIGNATURES[warp_per_output_blocks] = [(ROWS_OF, *blocks, *ENDS_IN) for blocks in IN_BLOCKS]
SIGNATURES[split_blocks] = [(*blocks, HALVES_OF, HALVES_OF, ROW) for blocks in IN_BLOCKS]
SIGNATURES[cast_int8_to_float16] = [(int8[:, ::1], HALVES_OF)]
TAIL = (ROW, boolean, int64, boolean, ROWS_OF)
SIGNATURES[round_rows] = [(ROWS_OF, HALVES_OF, ROW)]
SIGNATURES[round_unaligned_rows] = [(x_RX, HALVES_OF, ROW) for x_RX in (ROWS_OF, COLUMNS_OF)]
SIGNATURES[scale_rows] = [(ROWS_OF, ROW)]
SIGNATURES[end_sums] = [(ROWS_OF, ROW, boolean, ROW, boolean, *TAIL)]
REGISTERS = dict.fromkeys(SIGNATURES, 64)  # the sums of ROWS rows
REGISTERS[warp_per_output_blocks] = REGISTERS[warp_per_output_wide] = 96  # and sixteen numbers of a load
REGISTERS[split_blocks] = 96  # 32 numbers of a load
LARGEST_BLOCK = {}  # threads, of kernels whose blocks may have more than THREADS


@functools.cache
def make_few_rows_kernel(dtype, rows, tiles, steps):
    """A kernel with these constants; `benchmarks/gpu_linear.py` tries others."""
    name = f"few_rows_{dtype}_{rows}_{tiles}_{steps}"
    if dtype == "float32":
        return make_float32_kernel(rows, tiles, steps, name)
    stored = {"float16": FLOAT16, "int8": INT8, "int8_blocks": INT8_BLOCKS, "int4": INT4}[dtype]
    return make_tensor_core_kernel(stored, rows // 8, tiles, steps, name)


@functools.cache
def make_few_bits_kernel_of(dtype, rows, tiles, steps):
    """Version 5 with these constants; `benchmarks/gpu_linear.py` tries others."""
    stored = {"int8": INT8, "int8_blocks": INT8_BLOCKS, "int4": INT4}[dtype]
    return make_few_bits_kernel(stored, rows, tiles, steps, f"few_bits_{dtype}_{rows}_{tiles}_{steps}")


# (rows, tiles of outputs, steps that are loaded at once): for more and more rows, and of these for fewer outputs. What
# limits the kernels on 1 GB is how many lines of 128 bytes their loads touch: several tiles share what is read of x.
CONSTANTS = {
    "float32": [(1, 4, 2), (2, 4, 1), (4, 4, 1), (8, 4, 1)],
    "float16": [(8, 2, 4), (8, 1, 4), (16, 2, 4), (16, 1, 4)],
    "int8": [(8, 4, 2), (8, 1, 2), (16, 4, 2), (16, 1, 2)],
    "int8_blocks": [(8, 4, 4), (8, 1, 4), (16, 2, 4)],
    "int4": [(8, 4, 4), (8, 1, 4), (16, 2, 4)],
}
CONSTANTS_OF_5 = {
    "int8": [(1, 2, 2), (4, 2, 2), (8, 2, 2)],
    "int8_blocks": [(1, 2, 2), (4, 2, 2), (8, 2, 2)],
    "int4": [(1, 2, 2), (4, 2, 2), (8, 2, 1)],
}
FEW_ROWS = {dtype: [make_few_rows_kernel(dtype, *each) for each in made] for dtype, made in CONSTANTS.items()}
FEW_BITS = {dtype: [make_few_bits_kernel_of(dtype, *each) for each in made] for dtype, made in CONSTANTS_OF_5.items()}
READ = {
    "float32": (ROWS_OF, ROWS_OF), "float16": (ROWS_OF, HALVES_OF, ROW), "int8": (ROWS_OF, int8[:, ::1], ROW),
    "int8_blocks": (ROWS_OF, *IN_BLOCKS[0]), "int4": (ROWS_OF, *IN_BLOCKS[1]),
}  # fmt: skip
for _dtype, _made in (*FEW_ROWS.items(), *FEW_BITS.items()):
    SIGNATURES |= {made.kernel: [(*READ[_dtype], *TAIL)] for made in _made}
    REGISTERS |= {made.kernel: 168 for made in _made}
    LARGEST_BLOCK |= {made.kernel: LANES * made.warps for made in _made}
