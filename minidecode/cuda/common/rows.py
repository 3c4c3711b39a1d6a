"""Rows of any width by 128-bit loads, and a row's log-sum-exp in one pass: pieces of the kernels over a vocabulary.

GPT-2 has 50,257 tokens, so three rows of four begin at no multiple of 16 bytes. A row is three parts: at most three
numbers before the first such multiple, whole fours, and at most three numbers behind them. Four loads of four numbers
are issued before the first number is used: a load takes hundreds of cycles, and so the wait is one for sixteen numbers.

Few rows do not fill a GPU: then several blocks share a row, and a second kernel puts their parts together. In a graph
that costs about a microsecond, and needs no counter that somebody would have to set to 0 before each step.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import cuda, float32, types
from numba.cuda.extending import intrinsic

from ...emulator import register_body
from .reduction import warp_max, warp_sum

BLOCKS = 528  # that fill a GPU: four for each multiprocessor of an H100
MOST_WARPS = 32  # of a block
LEAST, MOST = 1536, 16384  # columns of a block's share: fewer do not pay for its end, more make the last ones late
INFINITY, NAN, LOWEST = float32(np.inf), float32(np.nan), float32(np.finfo(np.float32).min)
NOWHERE = np.int64(2**62)  # a column behind all others


def split_into_shares(rows, width, most=32):
    """(how many blocks share a row, the columns of a share): as many as fill the GPU, at most `most` unless it is wide.

    The width is counted here: a division of 64-bit numbers takes a GPU as long as a load from the cache.
    """
    shares = max(-(-width // MOST), min(BLOCKS // max(rows, 1), width // LEAST, most), 1)
    columns = -(-width // (4 * shares)) * 4
    return -(-width // columns), columns


def threads_for_row(width):
    """Sixteen numbers for each thread, if 1,024 are enough for that; whole warps."""
    return min(-(-width // (16 * 32)), MOST_WARPS) * 32


@intrinsic
def numbers_before_alignment(typing_context, row_X):
    """How many numbers of the row lie before the first address that is a multiple of 16."""
    size = row_X.dtype.bitwidth // 8

    def emit_count(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.ptrtoint(data, ir.IntType(64))
        missing = builder.and_(builder.neg(address), address.type(15))
        return builder.udiv(missing, address.type(size))

    return types.intp(row_X), emit_count


@register_body(numbers_before_alignment)
def _emulate_before_alignment(row_X):
    return -row_X.base % 16 // row_X.itemsize


@intrinsic
def load_four(typing_context, row_X, column):
    """The four float32 or float64 of the row from a column on that lies at a multiple of 16 bytes, by 128-bit loads."""

    def emit_load(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        numbers = ir.VectorType(context.get_data_type(row_X.dtype), 4)
        loaded = builder.load(builder.bitcast(builder.gep(data, [arguments[1]]), numbers.as_pointer()))
        loaded.align = 16
        each = [builder.extract_element(loaded, ir.Constant(ir.IntType(32), k)) for k in range(4)]
        return context.make_tuple(builder, signature.return_type, each)

    return types.UniTuple(row_X.dtype, 4)(row_X, types.intp), emit_load


@register_body(load_four)
def _emulate_load_four(row_X, column):
    row_X.require_alignment(column, 16)
    return row_X[column], row_X[column + 1], row_X[column + 2], row_X[column + 3]


@cuda.jit(device=True)
def bounds_of_share(row_X, columns):
    """(begin, first, last, end): the columns of the share that blockIdx.y names; whole fours lie from first to last."""
    share, X = cuda.blockIdx.y, row_X.shape[0]
    head = min(numbers_before_alignment(row_X), X)
    behind = head + (X - head) // 4 * 4
    first = min(head + share * columns, behind)
    last = min(first + columns, behind)
    return 0 if share == 0 else first, first, last, X if share + 1 == cuda.gridDim.y else last


@cuda.jit(device=True)
def unaligned_column_of(t, begin, first, last, end):
    """Thread t's column of those before `first` and behind `last`; NOWHERE for most threads."""
    before = first - begin
    column = begin + t if t < before else last + t - before
    return column if column < end else NOWHERE


@cuda.jit(device=True)
def load_four_before(row_X, column, last):
    """Four numbers from a column on; minus infinity, if it is not before `last`."""
    if column < last:
        return load_four(row_X, column)
    return four_minus_infinities(row_X)


@cuda.jit(device=True)
def load_four_from(row_X, column, first):
    """Four numbers from a column on; minus infinity, if it is before `first`."""
    if column >= first:
        return load_four(row_X, column)
    return four_minus_infinities(row_X)


@intrinsic
def four_minus_infinities(typing_context, row_X):
    """Four times minus infinity, of the row's dtype."""

    def emit_constants(context, builder, signature, arguments):
        low = ir.Constant(context.get_data_type(row_X.dtype), -np.inf)
        return context.make_tuple(builder, signature.return_type, [low] * 4)

    return types.UniTuple(row_X.dtype, 4)(row_X), emit_constants


@register_body(four_minus_infinities)
def _emulate_minus_infinities(row_X):
    low = row_X.dtype.type(-np.inf)
    return low, low, low, low


@cuda.jit(device=True)
def largest_of_four(four):
    """The largest of four numbers; NaN is passed over."""
    w, x, y, z = four
    return max(max(w, x), max(y, z))


@cuda.jit(device=True)
def holds_nan(four):
    """Whether one of four numbers is NaN."""
    w, x, y, z = four
    return (w != w) | (x != x) | (y != y) | (z != z)


@cuda.jit(device=True)
def sum_of_exponentials(four, most):
    """exp(x - most), summed over four numbers."""
    w, x, y, z = four
    return (math.exp(w - most) + math.exp(x - most)) + (math.exp(y - most) + math.exp(z - most))


@cuda.jit(device=True)
def max_and_sum_with_sixteen(largest, running_sum, a, b, c, d):
    """The running maximum, and the sum of exp(x - maximum), with four times four numbers more.

    The maximum begins at the lowest finite number, so that no difference is one of two infinities: minus infinity adds
    nothing, and NaN or plus infinity make the sum NaN. Sums of sixteen are trees, and there are few of them: nearly
    equal logits lose no digits by being added one by one to a large sum.
    """
    most = max(max(largest, max(largest_of_four(a), largest_of_four(b))), max(largest_of_four(c), largest_of_four(d)))
    more = (sum_of_exponentials(a, most) + sum_of_exponentials(b, most)) + (
        sum_of_exponentials(c, most) + sum_of_exponentials(d, most)
    )
    return most, running_sum * math.exp(largest - most) + more


@cuda.jit(device=True)
def max_and_sum_with_one(largest, running_sum, x):
    """The running maximum, and the sum of exp(x - maximum), with one number more."""
    most = max(largest, x)
    return most, running_sum * math.exp(largest - most) + math.exp(x - most)


@cuda.jit(device=True)
def max_and_sum_of_share(row_X, begin, first, last, end):
    """The thread's part of a share: its maximum, from the lowest finite number on, and sum of exponentials."""
    t, T = cuda.threadIdx.x, cuda.blockDim.x
    largest, running_sum = LOWEST, float32(0)
    v = first + 4 * t
    while v < last:
        a, b = load_four(row_X, v), load_four_before(row_X, v + 4 * T, last)
        c, d = load_four_before(row_X, v + 8 * T, last), load_four_before(row_X, v + 12 * T, last)
        largest, running_sum = max_and_sum_with_sixteen(largest, running_sum, a, b, c, d)
        v += 16 * T
    column = unaligned_column_of(t, begin, first, last, end)
    if column != NOWHERE:
        largest, running_sum = max_and_sum_with_one(largest, running_sum, row_X[column])
    return largest, running_sum


@cuda.jit(device=True)
def max_and_sum_of_warp(largest, running_sum):
    """Put together over the lanes, for every lane."""
    most = warp_max(largest)
    return most, warp_sum(running_sum * math.exp(largest - most))


@cuda.jit(device=True)
def max_and_sum_of_block(largest, running_sum, largest_X, total_X):
    """Put together over a block of up to 1,024 threads; `largest_X`, `total_X`, shared, have a place for each warp."""
    largest, running_sum = max_and_sum_of_warp(largest, running_sum)
    t = cuda.threadIdx.x
    if t % 32 == 0:
        largest_X[t // 32], total_X[t // 32] = largest, running_sum
    cuda.syncthreads()
    largest, running_sum = LOWEST, float32(0)
    if t % 32 < cuda.blockDim.x // 32:
        largest, running_sum = largest_X[t % 32], total_X[t % 32]
    return max_and_sum_of_warp(largest, running_sum)


@cuda.jit(device=True)
def max_and_sum_of_row(r, largest_RX, total_RX):
    """Put together over the shares of a row, for every lane of each warp."""
    largest, running_sum = LOWEST, float32(0)
    for share in range(cuda.threadIdx.x % 32, largest_RX.shape[1], 32):
        most = max(largest, largest_RX[r, share])
        more = total_RX[r, share] * math.exp(largest_RX[r, share] - most)
        largest, running_sum = most, running_sum * math.exp(largest - most) + more
    return max_and_sum_of_warp(largest, running_sum)
