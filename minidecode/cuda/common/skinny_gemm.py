"""Products of few rows at a device's bandwidth: kernels made with constants, which the compiler unrolls.

A kernel that waits for memory needs many bytes on their way. So each lane asks for all weights of several steps before
it multiplies the first of them, no loop asks how many rows there are, and what is read of x serves several outputs.

`make_tensor_core_kernel`: weights of float16, int8 or blocks. A tile of 8 outputs by 8 or 16 rows is one instruction of
a warp; x is rounded to float16 as it is read. Rows that are not there compute the last row again, and are not written.
`make_few_bits_kernel`: weights of int8 or blocks, many outputs. A tile of 16 outputs by 8 columns of x is one
instruction.
`make_float32_kernel`: each lane multiplies for itself, for 1, 2, 4 or 8 rows by several outputs.

The warps of a block take turns with steps of the inputs, and add up in shared memory: so few outputs keep many warps.

Floor: the bytes of the weights at the bandwidth of a copy. Predicted 80 % of that on 1 GB. Measured (H100, 2026-11-26,
before that day's last changes), 1 row: float16 93 %, float32 102 %, int8 74 %, int4 41 %; cuda/linear.py has more. Four
bits cost more instructions a byte than memory hides (reasoned): of `make_few_bits_kernel` less than half, predicted 78
% for int8 and 65 % for int4, not measured.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import cuda, float32, int32, uint32, uint64
from numba.core.types import float16

from ...device.weight_blocks import BLOCK
from .activation import activate
from .reduction import warp_max, warp_sum
from .tensor_core import (
    floats_of_halves,
    four_words,
    halves_of_bytes,
    halves_of_nibbles,
    load_four_floats,
    multiply_tiles,
    one_word,
    pack_halves,
    small_halves_of_nibbles,
    two_words,
)

MOST_WARPS = 8  # of a block, for float32
BEYOND, MOST_FINITE = float32(2.0**15), float32(3.4028235e38)
ZERO, ONE, TWO, INFINITE = float32(0), float32(1), float32(2), float32(float("inf"))
NO_HALVES, NO_WORDS, SHIFT = uint32(0), uint64(0), uint64(32)
ALL_LANES, OF_SMALL = 0xFFFFFFFF, float32(2.0**9)


class Stored(NamedTuple):
    """How weights of a dtype reach tensor cores: constants of a kernel."""

    words: int  # of 32 bits, that a lane loads at once
    inputs: int  # that these are
    in_blocks: bool
    by_output: bool  # whether each output has a scale


FLOAT16, INT8 = Stored(4, 8, False, False), Stored(4, 16, False, True)
INT8_BLOCKS, INT4 = Stored(2, 8, True, False), Stored(1, 8, True, False)  # four lanes have a block


@cuda.jit(device=True)
def keep_word(word):
    """A word of two float16 as it is: the functions beside it cast theirs."""
    return (word,)


@cuda.jit(device=True)
def add_bias_and_write(y, r, o, bias_X, biased, code, adds, y_RX):
    """What becomes of a sum, scaled: plus its bias, activated, and added to what is there, or written."""
    activate_and_write(y + bias_X[o] if biased else y, r, o, code, adds, y_RX)


@cuda.jit(device=True)
def activate_and_write(y, r, o, code, adds, y_RX):
    """What becomes of a sum with its bias."""
    y = activate(y, code)
    if adds:
        y += y_RX[r, o]
    y_RX[r, o] = y


@cuda.jit(device=True)
def weight_in_row(w_XX, scale_X, o, i):
    """One weight, without its output's scale."""
    return float32(w_XX[o, i])


@cuda.jit(device=True)
def weight_in_int8_block(w_XX, scale_XX, o, i):
    """One weight of blocks of int8, times its block's scale."""
    return float32(w_XX[o, i]) * float32(scale_XX[o, i // BLOCK])


@cuda.jit(device=True)
def weight_in_int4_block(w_XX, scale_XX, o, i):
    """One weight of blocks of int4, two of which share a byte, times its block's scale."""
    byte = int32(w_XX[o, i // BLOCK * 16 + i % 16])
    return float32((byte >> (i % BLOCK // 16 * 4) & 15) - 8) * float32(scale_XX[o, i // BLOCK])


@cuda.jit(device=True)
def scale_of_output(scale_X, o):
    """The scale of an output."""
    return scale_X[o]


@cuda.jit(device=True)
def no_scale(scale, o):
    """1, where weights have no scale of their output."""
    return ONE


@cuda.jit(device=True)
def no_words(scale, o, block):
    """Two empty words, where weights have no scales of blocks."""
    return NO_HALVES, NO_HALVES


@cuda.jit(device=True)
def unit_scales(word):
    """Two scales of 1, where weights have no scales of blocks."""
    return ONE, ONE


def make_scaled_sum(stored):
    """A function of a kernel, for rows beyond float16's range: a warp brings the row into it, by a power of two."""
    number = weight_in_int4_block if stored is INT4 else weight_in_int8_block if stored.in_blocks else weight_in_row

    @cuda.jit(device=True)
    def scaled_sum(x_RX, r, w_XX, scale, o, lane, before):
        most = ZERO
        for i in range(lane, x_RX.shape[1], 32):
            size = abs(x_RX[r, i])
            if not size <= MOST_FINITE:
                size = INFINITE
            if size > most:
                most = size
        most = warp_max(most)
        if most == INFINITE:  # no scale helps a row with an infinity or NaN
            return before
        power = ONE
        while most >= BEYOND * power:
            power *= TWO
        inverse = ONE / power
        total = ZERO
        for i in range(lane, x_RX.shape[1], 32):
            total += float32(float16(x_RX[r, i] * inverse)) * number(w_XX, scale, o, i)
        return warp_sum(total) * power

    return scaled_sum


def make_finish(stored, rows, outputs, most_warps):
    """Two functions of a kernel: one adds up what its warps have found, and writes it, scaled and ended.

    The other reads scale and bias for it, before the main loop: behind it, each launch would wait for them. A thread
    ends results of one output, for 32 is a multiple of `outputs`.
    """
    results, log_outputs = rows * outputs, outputs.bit_length() - 1
    of_output, scaled_sum = scale_of_output if stored.by_output else no_scale, make_scaled_sum(stored)

    @cuda.jit(device=True)
    def read_scale_and_bias(scale, bias_X, biased, y_RX):
        k = int32(cuda.threadIdx.x) & int32(outputs - 1)
        o = min(int32(cuda.blockIdx.x * outputs + k), int32(y_RX.shape[1] - 1))
        return of_output(scale, o), bias_X[o] if biased else ZERO

    @cuda.jit(device=True)
    def finish_outputs(part, x_RX, w_XX, scale, factor, bias, code, adds, y_RX):
        thread, threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
        warp, warps, lane = int32(thread >> 5), int32(threads >> 5), int32(thread & 31)
        first_row, first_output = int32(cuda.blockIdx.y * rows), int32(cuda.blockIdx.x * outputs)
        last_row, last_output = int32(x_RX.shape[0] - 1), int32(y_RX.shape[1] - 1)
        cuda.syncthreads()
        n, is_beyond = thread, int32(0)
        while n < results:
            row, k, total = int32(n >> log_outputs), int32(n & (outputs - 1)), ZERO
            for other_warp in range(most_warps):
                if other_warp < warps:
                    total += part[other_warp, row, k]
            part[0, row, k] = total
            if not abs(total) <= MOST_FINITE:
                is_beyond = int32(1)
            n = int32(n + threads)
        if cuda.syncthreads_or(is_beyond):
            n = warp
            while n < results:
                row, k = int32(n >> log_outputs), int32(n & (outputs - 1))
                r, o, total = first_row + row, first_output + k, part[0, row, k]
                if r <= last_row and o <= last_output and not abs(total) <= MOST_FINITE:
                    total = scaled_sum(x_RX, r, w_XX, scale, o, lane, total)
                    if lane == 0:
                        part[0, row, k] = total
                n = int32(n + warps)
            cuda.syncthreads()
        n = thread
        while n < results:
            row, k = int32(n >> log_outputs), int32(n & (outputs - 1))
            r, o = first_row + row, first_output + k
            if r <= last_row and o <= last_output:
                activate_and_write(part[0, row, k] * factor + bias, r, o, code, adds, y_RX)
            n = int32(n + threads)

    return read_scale_and_bias, finish_outputs


class Made(NamedTuple):
    """A kernel, and what its launch must know."""

    kernel: Any
    rows: int  # that it serves
    outputs: int  # of a block
    inputs: int  # that a warp loads at once
    multiple: int  # inputs must be one of it
    warps: int  # of a block, at most: they share the inputs


def make_tensor_core_kernel(stored, groups, tiles, steps, name):
    """For 8 * `groups` rows: a warp multiplies them by 8 * `tiles` outputs, and loads `steps` steps before a product.

    In a step each lane loads `stored.words` words of an output's weights, and four lanes share an output. Each step has
    sums of its own, so that few products wait for each other. Loops have no `range` with a step that is computed: its
    length would be a division of 64 bits.
    """
    words, per_lane, in_blocks, _ = stored
    is_int4, most_warps = stored is INT4, 16 // tiles
    rows, outputs, pairs, per_step = 8 * groups, 8 * tiles, (groups + 1) // 2, 4 * per_lane
    widened, fours, of_a_lane = per_lane // 2, per_lane // 4, 4 if is_int4 else per_lane
    per_word, apart = widened // words, 16 if is_int4 else 4
    second, third = (2, 1) if is_int4 else (1, 2)  # of four inputs: which goes into a word with the first
    columns = 2 * words if stored is FLOAT16 else 4 * words  # numbers of w that a lane loads at once
    raw_size, x_size, sums_size, scales_size = steps * tiles * words, groups * widened, tiles * pairs * 4, tiles * 4
    floats_size = steps * groups * per_lane
    part_shape = (most_warps, rows, outputs)
    load = {1: one_word, 2: two_words, 4: four_words}[words]
    widen = halves_of_nibbles if is_int4 else keep_word if stored is FLOAT16 else halves_of_bytes
    of_blocks = two_words if in_blocks else no_words
    as_scales = floats_of_halves if in_blocks else unit_scales
    read_ahead, finish = make_finish(stored, rows, outputs, most_warps)

    def kernel(x_RX, w_XX, scale, bias_X, biased, code, adds, y_RX):
        part = cuda.shared.array(part_shape, float32)
        raw = cuda.local.array(raw_size, uint32)
        floats = cuda.local.array(floats_size, float32)
        x = cuda.local.array(x_size, uint32)
        scales = cuda.local.array(scales_size, uint32)
        sums = cuda.local.array(sums_size, float32)
        thread, threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
        warp, warps, lane = int32(thread >> 5), int32(threads >> 5), int32(thread & 31)
        g, t = int32(lane >> 2), int32(lane & 3)
        first_row, first_output = int32(cuda.blockIdx.y * rows), int32(cuda.blockIdx.x * outputs)
        last_row, last_output = int32(x_RX.shape[0] - 1), int32(y_RX.shape[1] - 1)
        all_steps = int32(x_RX.shape[1]) // int32(per_step)
        factor, bias = read_ahead(scale, bias_X, biased, y_RX)
        for n in range(sums_size):
            sums[n] = ZERO
        begin = int32(warp * steps)
        while begin < all_steps:
            for s in range(steps):
                step = min(int32(begin + s), int32(all_steps - 1))
                for tile in range(tiles):
                    o = min(int32(first_output + 8 * tile + g), last_output)
                    loaded = load(w_XX, o, step * (4 * columns) + t * columns)
                    for j in range(words):
                        raw[(s * tiles + tile) * words + j] = loaded[j]
            for tile in range(tiles):
                for k in range(2):
                    o = min(int32(first_output + 8 * tile + 2 * t + k), last_output)
                    two = of_blocks(scale, o, begin)
                    for j in range(2):
                        scales[(tile * 2 + k) * 2 + j] = two[j]
            cuda.syncwarp()  # without, the assembler moves loads behind what uses others, to save registers
            for s in range(steps):
                step = min(int32(begin + s), int32(all_steps - 1))
                for group in range(groups):
                    r = min(int32(first_row + 8 * group + g), last_row)
                    for four in range(fours):
                        numbers = load_four_floats(x_RX, r, step * per_step + t * of_a_lane + four * apart)
                        for j in range(4):
                            floats[((s * groups + group) * fours + four) * 4 + j] = numbers[j]
            cuda.syncwarp()
            for s in range(steps):
                for group in range(groups):
                    for four in range(fours):
                        at = ((s * groups + group) * fours + four) * 4
                        x[group * widened + 2 * four] = pack_halves(floats[at], floats[at + second])
                        x[group * widened + 2 * four + 1] = pack_halves(floats[at + third], floats[at + 3])
                for tile in range(tiles):
                    for pair in range(pairs):
                        a = b = c = d = ZERO
                        for j in range(words):
                            wide = widen(raw[(s * tiles + tile) * words + j])
                            for k in range(per_word):
                                m = j * per_word + k
                                x_low, x_high = x[2 * pair * widened + m], NO_HALVES
                                if 2 * pair + 1 < groups:
                                    x_high = x[(2 * pair + 1) * widened + m]
                                a, b, c, d = multiply_tiles(x_low, x_high, wide[k], a, b, c, d)
                        if begin + s < all_steps:
                            at, first = (tile * pairs + pair) * 4, as_scales(scales[tile * 4 + s // 2])[s % 2]
                            other = as_scales(scales[tile * 4 + 2 + s // 2])[s % 2]
                            sums[at] += first * a
                            sums[at + 1] += other * b
                            sums[at + 2] += first * c
                            sums[at + 3] += other * d
            begin = int32(begin + warps * steps)
        for tile in range(tiles):
            for group in range(groups):
                for k in range(2):
                    n = (tile * pairs + group // 2) * 4 + group % 2 * 2 + k
                    part[warp, 8 * group + g, 8 * tile + 2 * t + k] = sums[n]
        finish(part, x_RX, w_XX, scale, factor, bias, code, adds, y_RX)

    kernel.__name__ = kernel.__qualname__ = name
    multiple = per_step * steps if in_blocks else per_step
    return Made(cuda.jit(kernel), rows, outputs, per_step * steps, multiple, most_warps)


def make_few_bits_kernel(stored, rows, tiles, steps, name):
    """For `rows` rows and weights of 8 or 4 bits: a warp has 16 * `tiles` outputs, and a lane loads 16 bytes of one.

    Weights are the 16 rows of a tensor core's product and x its 8 columns, so that no half of it is empty. Each warp
    rounds the x of its next inputs to float16 in shared memory. Four lanes have an output: with int4 each of them holds
    a block of its own, with int8_blocks two hold one. There a column holds a row's x for one block and zeros for the
    others, so each block has its own sum, which is then scaled. Inputs beyond the last are zeros of x.
    """
    is_int4, in_blocks = stored is INT4, stored.in_blocks
    per_lane, blocks_at_once = 32 if is_int4 else 16, 4 if is_int4 else 2 if in_blocks else 1
    together = 8 // blocks_at_once  # rows of a product
    groups, per_step, outputs = -(-rows // together), 4 * per_lane, 16 * tiles
    apart = 9 if is_int4 else 4  # of the x of two lanes, in eight bytes each: so that banks do not conflict
    per_word, x_loads = 4 if is_int4 else 2, per_step * steps // 128
    widen = small_halves_of_nibbles if is_int4 else halves_of_bytes
    second, third = (2, 1) if is_int4 else (1, 2)  # of four inputs: which goes into a word with the first
    raw_size, floats_size, sums_size = steps * tiles * 8, rows * x_loads * 4, tiles * groups * 4
    words_size = groups * per_word
    scales_size, scale_words = tiles * 2 * steps, {1: one_word, 2: two_words, 4: four_words}[steps]
    log_lane, log_step = int32(per_lane.bit_length() - 1), int32(per_step.bit_length() - 1)
    row_size, kept_rows = steps * 4 * apart + 1, rows + 1 if in_blocks else rows
    most_warps = 4
    x_shape = (most_warps * kept_rows, row_size)
    read_ahead, finish = make_finish(stored, rows, outputs, most_warps)
    part_shape = (most_warps, rows, outputs)

    def kernel(x_RX, w_XX, scale, bias_X, biased, code, adds, y_RX):
        part = cuda.shared.array(part_shape, float32)
        x = cuda.shared.array(x_shape, uint64)  # four float16 each
        raw = cuda.local.array(raw_size, uint32)
        floats = cuda.local.array(floats_size, float32)
        scales = cuda.local.array(scales_size, uint32)
        words = cuda.local.array(words_size, uint32)
        products = cuda.local.array(sums_size, float32)
        sums = cuda.local.array(sums_size, float32)
        thread, threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
        warp, warps, lane = int32(thread >> 5), int32(threads >> 5), int32(thread & 31)
        g, t = int32(lane >> 2), int32(lane & 3)
        first_row, first_output = int32(cuda.blockIdx.y * rows), int32(cuda.blockIdx.x * outputs)
        last_row, last_output = int32(x_RX.shape[0] - 1), int32(y_RX.shape[1] - 1)
        inputs = int32(x_RX.shape[1])
        last_load = int32((inputs >> log_lane) - 1)
        all_steps = int32((inputs + int32(per_step - 1)) >> log_step)
        my_rows, column = int32(warp * kept_rows), int32(t * apart)
        is_mine = not in_blocks or g % blocks_at_once == t * blocks_at_once // 4
        if not is_mine:
            column = int32(0)
        if in_blocks:
            n = lane
            while n < row_size:
                x[my_rows + rows, n] = NO_WORDS
                n = int32(n + 32)
        factor, bias = read_ahead(scale, bias_X, biased, y_RX)
        for n in range(sums_size):
            sums[n] = ZERO
        begin = int32(warp * steps)
        while begin < all_steps:
            for s in range(steps):
                load = int32((begin + s) * 4 + t)
                if is_int4:
                    load = int32(begin * 4 + (t >> 1) * (2 * steps) + 2 * s + (t & 1))
                load = min(load, last_load)
                for half in range(2 * tiles):
                    o = min(int32(first_output + 8 * half + g), last_output)
                    loaded = four_words(w_XX, o, load * 16)
                    for j in range(4):
                        raw[(s * 2 * tiles + half) * 4 + j] = loaded[j]
            if in_blocks:
                block = int32(begin * blocks_at_once + ((t & 1) * (2 * steps) if is_int4 else 0))
                block = min(block, int32(scale.shape[1] - 2 * steps))
                for half in range(2 * tiles):
                    o = min(int32(first_output + 8 * half + g), last_output)
                    loaded = scale_words(scale, o, block)
                    for j in range(steps):
                        scales[half * steps + j] = loaded[j]
            for row in range(rows):
                for m in range(x_loads):
                    i = min(int32(begin * per_step + 128 * m + 4 * lane), int32(inputs - 4))
                    four = load_four_floats(x_RX, min(int32(first_row + row), last_row), i)
                    for j in range(4):
                        floats[(row * x_loads + m) * 4 + j] = four[j]
            cuda.syncwarp()  # the last turn's x has been read
            for row in range(rows):
                for m in range(x_loads):
                    at = (row * x_loads + m) * 4
                    low, high = (
                        pack_halves(floats[at], floats[at + second]),
                        pack_halves(floats[at + third], floats[at + 3]),
                    )
                    if is_int4:
                        block = int32(4 * m + (lane >> 3))
                        here = int32((block % (2 * steps) // 2 * 4 + block // (2 * steps) * 2 + block % 2) * apart)
                        here = int32(here + (lane & 3) * 2 + (lane >> 2 & 1))
                    else:
                        here = int32(32 * m + lane)
                    four = uint64(low) | uint64(high) << SHIFT
                    x[my_rows + row, here] = four if begin * per_step + 128 * m + 4 * lane < inputs else NO_WORDS
            cuda.syncwarp()
            for s in range(steps):
                for n in range(sums_size):
                    products[n] = ZERO
                for j in range(4):
                    for group in range(groups):
                        row = min(int32(group * together + g // blocks_at_once), int32(rows - 1))
                        row = row if is_mine else int32(rows)
                        for k in range(per_word // 2):
                            four = x[my_rows + row, s * 4 * apart + column + j * (per_word // 2) + k]
                            words[group * per_word + 2 * k] = uint32(four)
                            words[group * per_word + 2 * k + 1] = uint32(four >> SHIFT)
                    for tile in range(tiles):
                        low = widen(raw[(s * 2 * tiles + 2 * tile) * 4 + j])
                        high = widen(raw[(s * 2 * tiles + 2 * tile + 1) * 4 + j])
                        for group in range(groups):
                            at = (tile * groups + group) * 4
                            a, b, c, d = products[at], products[at + 1], products[at + 2], products[at + 3]
                            for k in range(per_word):
                                a, b, c, d = multiply_tiles(low[k], high[k], words[group * per_word + k], a, b, c, d)
                            products[at], products[at + 1], products[at + 2], products[at + 3] = a, b, c, d
                for half in range(2 * tiles):
                    first, other = ONE, ONE
                    if in_blocks:
                        first, other = floats_of_halves(scales[half * steps + s])
                    for group in range(groups):
                        at = (half // 2 * groups + group) * 4 + half % 2 * 2
                        if in_blocks:
                            sums[at] += first * products[at] + other * products[at + 1]
                        else:
                            sums[at] += products[at]
                            sums[at + 1] += products[at + 1]
            begin = int32(begin + warps * steps)
        for half in range(2 * tiles):
            for group in range(groups):
                at, k = (half // 2 * groups + group) * 4 + half % 2 * 2, int32(8 * half + g)
                if is_int4:
                    row, total = int32(group * 2 + (t >> 1)), sums[at] + cuda.shfl_xor_sync(ALL_LANES, sums[at], 1)
                    if row < rows and t & 1 == 0:
                        part[warp, row, k] = total * OF_SMALL
                elif in_blocks:
                    row = int32(group * 4 + t)
                    if row < rows:
                        part[warp, row, k] = sums[at]
                else:
                    for j in range(2):
                        row = int32(group * 8 + 2 * t + j)
                        if row < rows:
                            part[warp, row, k] = sums[at + j]
        finish(part, x_RX, w_XX, scale, factor, bias, code, adds, y_RX)

    kernel.__name__ = kernel.__qualname__ = name
    multiple = 64 * steps if in_blocks else 16
    return Made(cuda.jit(kernel), rows, outputs, per_step * steps, multiple, most_warps)


def make_float32_kernel(rows, outputs, steps, name):
    """A kernel for up to `rows` rows: a warp has `outputs` outputs, and its lanes load `steps` times four weights."""
    sums_size, w_size, log_outputs = rows * outputs, steps * outputs * 4, outputs.bit_length() - 1
    part_shape = (MOST_WARPS, rows, outputs)

    def kernel(x_RX, w_XX, bias_X, biased, code, adds, y_RX):
        part = cuda.shared.array(part_shape, float32)
        w = cuda.local.array(w_size, float32)
        sums = cuda.local.array(sums_size, float32)
        thread, threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
        warp, warps, lane = int32(thread >> 5), int32(threads >> 5), int32(thread & 31)
        first_row, first_output = int32(cuda.blockIdx.y * rows), int32(cuda.blockIdx.x * outputs)
        inputs, last_row, last_output = int32(x_RX.shape[1]), int32(x_RX.shape[0] - 1), int32(y_RX.shape[1] - 1)
        for n in range(sums_size):
            sums[n] = ZERO
        begin = int32(warp * steps * 128)
        while begin < inputs:
            for s in range(steps):
                i = min(int32(begin + s * 128 + lane * 4), int32(inputs - 4))
                for k in range(outputs):
                    loaded = load_four_floats(w_XX, min(int32(first_output + k), last_output), i)
                    for j in range(4):
                        w[(s * outputs + k) * 4 + j] = loaded[j]
            for s in range(steps):
                i = int32(begin + s * 128 + lane * 4)
                is_there = i < inputs
                i = min(i, int32(inputs - 4))
                for row in range(rows):
                    x = load_four_floats(x_RX, min(int32(first_row + row), last_row), i)
                    for j in range(4):
                        number = x[j] if is_there else ZERO
                        for k in range(outputs):
                            sums[row * outputs + k] += w[(s * outputs + k) * 4 + j] * number
            begin = int32(begin + warps * (steps * 128))
        for row in range(rows):
            for k in range(outputs):
                total = warp_sum(sums[row * outputs + k])
                if lane == k:
                    part[warp, row, k] = total
        cuda.syncthreads()
        n = thread
        while n < sums_size:
            row, k, total = int32(n >> log_outputs), int32(n & (outputs - 1)), ZERO
            for other_warp in range(MOST_WARPS):
                if other_warp < warps:
                    total += part[other_warp, row, k]
            r, o = first_row + row, first_output + k
            if r <= last_row and o <= last_output:
                add_bias_and_write(total, r, o, bias_X, biased, code, adds, y_RX)
            n = int32(n + threads)

    kernel.__name__ = kernel.__qualname__ = name
    return Made(cuda.jit(kernel), rows, outputs, 128 * steps, 4, MOST_WARPS)
