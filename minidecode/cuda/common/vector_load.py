"""128-bit loads and stores. No compiler merges narrower ones into them: it does not know how rows are aligned."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import float32, int8, types, uint8
from numba.core.types import float16
from numba.cuda.extending import intrinsic

from ...device.arrays import address_of
from ...emulator import register_body


@intrinsic
def wide_load(typing_context, numbers_X, index):
    """The float32 of the numbers in the 16 bytes from numbers_X[index] on, as a tuple: one 128-bit load.

    Of uint8 these are a block of int4 (device/weight_blocks.py): 32 numbers, the lower halves of the bytes first.
    """
    number = {float32: ir.FloatType(), float16: ir.HalfType(), int8: ir.IntType(8), uint8: ir.IntType(8)}[
        numbers_X.dtype
    ]
    together = 128 // numbers_X.dtype.bitwidth

    def emit_load(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        words = ir.VectorType(ir.IntType(32), 4)
        loaded = builder.load(builder.bitcast(builder.gep(data, [arguments[1]]), words.as_pointer()))
        loaded.align = 16
        numbers = builder.bitcast(loaded, ir.VectorType(number, together))
        each = [builder.extract_element(numbers, ir.Constant(ir.IntType(32), k)) for k in range(together)]
        if numbers_X.dtype is float16:
            each = [builder.fpext(n, ir.FloatType()) for n in each]
        if numbers_X.dtype is int8:
            each = [builder.sitofp(n, ir.FloatType()) for n in each]
        if numbers_X.dtype is uint8:
            halves = [builder.and_(n, n.type(15)) for n in each] + [builder.lshr(n, n.type(4)) for n in each]
            each = [builder.sitofp(builder.sub(n, n.type(8)), ir.FloatType()) for n in halves]
        return context.make_tuple(builder, signature.return_type, each)

    count = 2 * together if numbers_X.dtype is uint8 else together
    return types.UniTuple(float32, count)(numbers_X, types.intp), emit_load


@register_body(wide_load)
def _emulate_wide_load(numbers_X, index):
    numbers_X.require_alignment(index, 16)
    if numbers_X.dtype == np.uint8:
        both = [int(numbers_X[index + k]) for k in range(16)]
        return [float32((byte >> shift & 15) - 8) for shift in (0, 4) for byte in both]
    return [float32(numbers_X[index + k]) for k in range(16 // numbers_X.itemsize)]


@intrinsic
def wide_store(typing_context, numbers_X, index, first, second, third, fourth):
    """numbers_X[index] and the three behind it: float32 by one 128-bit store, float16, rounded, by one of 64 bits."""
    number, width = {float32: (ir.FloatType(), 16), float16: (ir.HalfType(), 8)}[numbers_X.dtype]

    def emit_store(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        four = ir.VectorType(number, 4)
        numbers = four(ir.Undefined)
        for k, each in enumerate(arguments[2:]):
            each = builder.fptrunc(each, number) if width == 8 else each
            numbers = builder.insert_element(numbers, each, ir.Constant(ir.IntType(32), k))
        place = builder.bitcast(builder.gep(data, [arguments[1]]), four.as_pointer())
        builder.store(numbers, place, align=width)
        return context.get_dummy_value()

    return types.void(numbers_X, types.intp, float32, float32, float32, float32), emit_store


@register_body(wide_store)
def _emulate_wide_store(numbers_X, index, *four):
    numbers_X.require_alignment(index, 4 * numbers_X.itemsize)
    for k, number in enumerate(four):
        numbers_X[index + k] = number


def has_aligned_rows(array):
    """Whether the array and each of its rows do."""
    return address_of(array) % 16 == 0 and array.strides[0] % 16 == 0 and array.strides[1] == array.itemsize
